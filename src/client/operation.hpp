// One logical operation from its first try to its end. Its dependencies are ports.
#pragma once

#include <cstddef>
#include <stop_token>
#include <string>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "client/transport.hpp"
#include "once/client.hpp"

namespace once::client {

class StreamBody;

constexpr std::size_t longest_key = 256;  // in any dialect

struct Ports {
  const Clock& clock;
  Random& random;
  Transport& transport;
  Timeline& timeline;
};

struct Asked {
  const Options& options;
  const Request& request;
  const Watcher& watcher;
  const std::stop_token& stop;
  StreamBody* body = nullptr;  // for a stream: receives the body of a 2xx
};

// The mistake in the request or the options; empty if there is none.
std::string mistake_in(const Options& options, const Request& request);

Result run_operation(const Asked& asked, const Ports& ports);
StreamResult run_stream(const Asked& asked, const Reader& reader, const Ports& ports);
StopResult run_stop(const Asked& asked, const Ports& ports);

}  // namespace once::client
