// The additional setup of a simulation that starts with bytes: the behaviour of the network, the forms of requests and
// responses, and the gateways' limits. Chances are percentages unless noted.
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
  unsigned chance = 0;  // of a keyed request to be answered by one; 0: there are none in this run
  unsigned resumes = 0;
  unsigned lookups = 0;         // by the key alone
  unsigned leaves_reading = 0;  // in the middle of a response
  unsigned stops_reading = 0;   // for a while, the same
  unsigned stops = 0;           // callers: stop the stream that they asked for
  unsigned breaks = 0;          // backends: break off in the middle
  unsigned hangs = 0;           // or say no more
  unsigned losses = 0;          // of all data of a Redis without persistence, in the whole run
  std::size_t large_event = 0;  // of some events

  // Of routes: the first, the second.
  std::array<StreamRecording, 2> recording{};
  std::size_t max_stream = std::size_t{16} << 20U;
  Duration abandon_after{};
  Duration idle{};  // timeouts.stream_idle

  bool any() const { return chance > 0; }
};

struct ByteSetup {
  Weather weather;
  unsigned workers = 1;      // of each gateway
  unsigned call_faults = 0;  // of a thousand calls to the network: EAGAIN, EINTR, one byte only
  unsigned call_resets = 0;  // of ten thousand calls
  unsigned reloads = 0;      // of the settings of each gateway, in the whole run

  // Clients.
  unsigned reuses = 50;       // connections that idle
  unsigned pipelines = 0;     // on a connection that waits for answers
  unsigned splits = 0;        // requests are written in pieces
  unsigned stalls = 0;        // with a long pause in between
  unsigned leaves = 0;        // in the middle of a request
  unsigned leaves_after = 0;  // before the answer
  unsigned half_closes = 0;   // behind the request
  unsigned reads_slowly = 0;
  unsigned chunks = 30;
  unsigned expects = 0;            // 100 (Continue)
  unsigned old = 0;                // HTTP/1.0
  unsigned strangers = 0;          // in the whole run: without a key, malformed, upgrades, silence
  unsigned shadows = 0;            // of them, with a key on a route in shadow mode
  unsigned service_strangers = 0;  // the same, at the server of operators

  // Servers of the backend. With health checks, one of them is unfit for requests now and then, and says so.
  unsigned servers = 1;
  HealthSettings health;
  unsigned unfit = 0;

  // The backend.
  unsigned answers_in_chunks = 30;
  unsigned answers_until_close = 0;
  unsigned answers_in_parts = 0;  // with pauses
  unsigned answers_early = 0;     // before it has the body
  unsigned stops_reading = 0;     // for a while, when it has answered early
  unsigned interim = 0;
  unsigned malformed = 0;
  unsigned switches_unasked = 0;
  unsigned says_more = 0;      // bytes behind the response
  unsigned closes = 0;         // after the response, announced or not
  std::size_t large_body = 0;  // of some responses

  unsigned store_answers_late = 0;  // after seconds

  StreamSetup streams;

  std::size_t max_request_body = 0;  // larger ones go to the spool; 0: none is
  unsigned spool_faults = 0;

  Limits limits;
  ClientTimeouts timeouts;
  std::size_t max_body = 1024;  // record.max_body

  bool checks_health() const { return !health.path.empty(); }
  // Only what health checks say keeps requests from a server: each can be reached whenever one is sent there.
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
