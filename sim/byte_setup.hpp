// The setup of a simulation at the byte layer: the behaviour of the network, the forms of requests and responses, and
// the gateways' limits. Chances are percentages unless noted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/clock.hpp"
#include "core/policy.hpp"
#include "gateway/settings.hpp"
#include "sim/draw.hpp"
#include "sim/wires.hpp"

namespace once::sim {

// Keyed responses that are event streams, and their readers.
struct StreamSetup {
  unsigned chance = 0;  // of a keyed request to be answered by a stream; 0: no streams in this run
  unsigned resumes = 0;
  unsigned lookups = 0;         // by key
  unsigned leaves_reading = 0;  // readers: disconnect in the middle of a response
  unsigned stops_reading = 0;   // readers: pause in the middle of a response
  unsigned stops = 0;           // callers: stop their stream
  unsigned breaks = 0;          // backends: break off in the middle
  unsigned hangs = 0;           // backends: fall silent
  unsigned losses = 0;          // times that a Redis without persistence loses all data, per run
  std::size_t large_event = 0;  // size of some events

  // For the first and the second route.
  std::array<StreamRecording, 2> recording{};
  std::size_t max_stream = std::size_t{16} << 20U;
  Duration abandon_after{};
  Duration idle{};  // timeouts.stream_idle

  bool any() const { return chance > 0; }
};

struct ByteSetup {
  Weather weather;
  unsigned workers = 1;      // per gateway
  unsigned call_faults = 0;  // per thousand network calls: EAGAIN, EINTR, or a single byte
  unsigned call_resets = 0;  // per ten thousand network calls
  unsigned reloads = 0;      // of the settings of each gateway, per run

  // Clients.
  unsigned reuses = 50;       // uses idle connections
  unsigned pipelines = 0;     // requests on a connection that waits for responses
  unsigned splits = 0;        // requests sent in pieces
  unsigned stalls = 0;        // requests with a long pause inside
  unsigned leaves = 0;        // disconnects in the middle of a request
  unsigned leaves_after = 0;  // disconnects before the response
  unsigned half_closes = 0;   // closes the sending side after the request
  unsigned reads_slowly = 0;
  unsigned chunks = 30;
  unsigned expects = 0;            // uses 100 Continue
  unsigned old = 0;                // uses HTTP/1.0
  unsigned strangers = 0;          // per run: without a key, malformed, upgrades, silent
  unsigned shadows = 0;            // of them, with a key on a route in shadow mode
  unsigned service_strangers = 0;  // the same at the operators' service
  unsigned evaders = 0;        // per run: without a key, on paths that some backends read as one that requires a key
  unsigned tunnel_resets = 0;  // tunnels that their backend resets

  // Servers of the backend. With health checks, one of them is unfit for requests at times, and reports it.
  unsigned servers = 1;
  HealthSettings health;
  unsigned unfit = 0;

  // The backend.
  unsigned answers_in_chunks = 30;
  unsigned answers_until_close = 0;
  unsigned answers_in_parts = 0;  // with pauses
  unsigned answers_early = 0;     // before the body has arrived
  unsigned stops_reading = 0;     // pauses reading after an early response
  unsigned interim = 0;
  unsigned malformed = 0;
  unsigned switches_unasked = 0;
  unsigned extra_bytes = 0;    // sends extra bytes after the response
  unsigned closes = 0;         // closes after the response, announced or not
  std::size_t large_body = 0;  // size of some responses

  unsigned store_answers_late = 0;  // seconds late

  StreamSetup streams;

  std::size_t max_request_body = 0;  // larger ones go to the spool; 0: none do
  unsigned spool_faults = 0;

  Limits limits;
  ClientTimeouts timeouts;
  std::size_t max_body = 1024;  // record.max_body

  bool checks_health() const { return !health.path.empty(); }
  // Whether health checks are the only thing that keeps requests from a server: every server is always reachable.
  bool reaches_servers() const {
    return weather.refuses == 0 && weather.stalls == 0 && call_faults == 0 && call_resets == 0 && reloads == 0;
  }
  bool large_requests() const { return max_request_body > 0; }
  bool limits_callers() const { return limits.caller.any() || limits.address.any(); }
  bool memory_is_short() const { return limits.max_body_memory < std::size_t{1} << 20U; }
};

ByteSetup draw_byte_setup(std::uint64_t seed);
std::string to_text(const ByteSetup& setup);

}  // namespace once::sim
