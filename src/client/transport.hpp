// One try, as a port: CurlTransport in production, a script in tests.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "once/client.hpp"

namespace once::client {

// Those of the environment (http_proxy, https_proxy, no_proxy), or none whatever it says.
enum class Proxies : std::uint8_t { of_environment, none };

struct Try {
  const Request& request;
  const std::vector<Header>& headers;  // the request's and the key
  const Options& options;
  Duration timeout;
  Proxies proxies = Proxies::of_environment;
};

struct Tried {
  // If an answer came, `success` until it is classified.
  Happened happened = Happened::not_connected;
  Answer answer;
  std::string detail;  // for people
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual Tried perform(const Try& what, const std::stop_token& stop) = 0;
  // Why this request cannot be sent at all; empty if it can.
  virtual std::string refusal(const Request& /*request*/) const { return {}; }
};

// Time that passes: measured without jumps, and waited for.
class Timeline {
 public:
  virtual ~Timeline() = default;
  virtual Duration now() const = 0;
  // Returns early if a stop is requested.
  virtual void wait(Duration duration, const std::stop_token& stop) = 0;
};

}  // namespace once::client
