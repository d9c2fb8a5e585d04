// One try, as a port: CurlTransport in production, a script in tests.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "once/client.hpp"

namespace once::client {

// Whether to use the proxies in the environment (http_proxy, https_proxy, no_proxy).
enum class Proxies : std::uint8_t { of_environment, none };

// Receives the body of a 2xx as it arrives. Called between two steps of the transfer, so it may throw.
class Receiver {
 public:
  virtual ~Receiver() = default;
  virtual Reading take_head(const Answer& head) = 0;
  virtual Reading take_bytes(std::string_view bytes) = 0;
};

struct Try {
  const Request& request;
  const std::vector<Header>& headers;  // the request's headers and the key
  const Options& options;
  Duration timeout;  // of the whole try; with a receiver, the longest silence
  Proxies proxies = Proxies::of_environment;
  Receiver* receiver = nullptr;  // null: the body is collected
};

struct Tried {
  // `success` for any answer until it is classified. Also `cancelled` if the receiver stops.
  Happened happened = Happened::not_connected;
  Answer answer;
  std::optional<Answer> cut_off;  // the head of an incomplete answer
  std::string detail;             // for people
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual Tried perform(const Try& what, const std::stop_token& stop) = 0;
  // Why this request cannot be sent at all; empty if it can.
  virtual std::string refusal(const Request& /*request*/) const { return {}; }
};

// A monotonic clock, and waiting by it.
class Timeline {
 public:
  virtual ~Timeline() = default;
  virtual Duration now() const = 0;
  // Returns early if a stop is requested.
  virtual void wait(Duration duration, const std::stop_token& stop) = 0;
};

}  // namespace once::client
