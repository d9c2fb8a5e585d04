#include "sim/byte_setup.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace once::sim {

namespace {

using namespace std::chrono_literals;

unsigned chance(Draw& draw, std::uint64_t most) {
  return draw.one_in(2) ? 0 : static_cast<unsigned>(draw.between(1, most));
}

void draw_clients(Draw& draw, ByteSetup& setup) {
  setup.reuses = static_cast<unsigned>(draw.between(0, 90));
  setup.pipelines = chance(draw, 40);
  setup.splits = chance(draw, 80);
  setup.stalls = chance(draw, 15);
  setup.leaves = chance(draw, 20);
  setup.leaves_after = chance(draw, 30);
  setup.half_closes = chance(draw, 20);
  setup.reads_slowly = chance(draw, 50);
  setup.expects = chance(draw, 20);
  setup.old = chance(draw, 15);
  setup.strangers = static_cast<unsigned>(draw.between(0, 40));
}

void draw_backend(Draw& draw, ByteSetup& setup) {
  setup.answers_in_chunks = static_cast<unsigned>(draw.between(0, 60));
  setup.answers_until_close = chance(draw, 20);
  setup.answers_in_parts = chance(draw, 40);
  setup.answers_early = chance(draw, 40);
  setup.stops_reading = chance(draw, 80);
  setup.interim = chance(draw, 30);
  setup.malformed = chance(draw, 12);
  setup.switches_unasked = chance(draw, 8);
  setup.closes = chance(draw, 40);
  setup.large_body = draw.one_of({std::size_t{0}, std::size_t{12'000}, std::size_t{40'000}});
}

// Bytes that are still in flight when the connection is reused are unavoidably parsed as the next response. Only bytes
// that arrive with the response are noticed for certain, so the network keeps those together.
void draw_more(Draw& draw, ByteSetup& setup) {
  if (!draw.one_in(8)) return;
  setup.extra_bytes = static_cast<unsigned>(draw.between(1, 40));
  setup.weather.delay = 0ms;
  setup.weather.splits = 0;
  setup.weather.capacity = std::size_t{1} << 20U;
  setup.call_faults = 0;
}

void draw_caller_limits(Draw& draw, ByteSetup& setup) {
  CallerLimits& caller = setup.limits.caller;
  if (draw.one_in(6)) caller.in_flight = draw.between(1, 2);
  if (draw.one_in(6)) caller.new_keys = draw.between(1, 3);
  if (draw.one_in(12)) caller.stored_bytes = 3000;
  if (draw.one_in(12)) setup.limits.address.new_keys = draw.between(1, 3);
}

void draw_servers(Draw& draw, ByteSetup& setup) {
  setup.servers = draw.one_in(3) ? 2 : 1;
  if (!draw.one_in(6)) return;
  setup.servers = 2;
  setup.health = {.path = "/health",
                  .interval = draw.one_of({Duration(500ms), Duration(2s)}),
                  .timeout = draw.one_of({Duration(200ms), Duration(1s)}),
                  .failures = draw.between(1, 3),
                  .successes = draw.between(1, 2)};
  setup.unfit = chance(draw, 80);
  if (draw.one_in(2)) return;
  setup.weather.refuses = setup.weather.stalls = setup.call_faults = setup.call_resets = setup.reloads = 0;
}

// Uses its own random bits, so that runs without streams did not change when streams were added.
StreamSetup draw_stream_setup(std::uint64_t seed) {
  Draw draw(seed ^ 0x57e4'0b17);
  StreamSetup setup;
  if (draw.one_in(2)) return setup;
  setup.chance = static_cast<unsigned>(draw.between(30, 100));
  setup.resumes = chance(draw, 90);
  setup.lookups = chance(draw, 40);
  setup.leaves_reading = chance(draw, 40);
  setup.stops_reading = chance(draw, 40);
  setup.breaks = chance(draw, 50);
  setup.hangs = chance(draw, 15);
  setup.large_event = draw.one_of({std::size_t{0}, std::size_t{0}, std::size_t{3000}, std::size_t{40'000}});
  for (StreamRecording& recording : setup.recording) {
    recording = draw.one_of({StreamRecording::automatic, StreamRecording::automatic, StreamRecording::automatic,
                             StreamRecording::always, StreamRecording::off});
  }
  setup.max_stream = draw.one_of({std::size_t{500}, std::size_t{16} << 20U, std::size_t{16} << 20U});
  setup.abandon_after = draw.one_of({Duration(0ms), Duration(0ms), Duration(500ms), Duration(3s)});
  setup.idle = draw.one_of({Duration(3s), Duration(15s)});
  return setup;
}

// Uses its own random bits, so that runs without stops did not change when stops were added.
unsigned draw_stops(std::uint64_t seed) {
  Draw draw(seed ^ 0x5709'0c84);
  return chance(draw, 40);
}

unsigned draw_losses(std::uint64_t seed) {
  Draw draw(seed ^ 0x105e'da7a);
  return draw.one_in(2) ? static_cast<unsigned>(draw.between(1, 3)) : 0;
}

// Requests that are too large for memory, for every second key. Each still takes some memory. Uses its own random bits
// too.
void draw_large_requests(std::uint64_t seed, ByteSetup& setup) {
  Draw draw(seed ^ 0x1a46'e00b);
  if (!draw.one_in(4) || setup.memory_is_short()) return;
  setup.max_request_body = 3000;
  setup.spool_faults = chance(draw, 10);
  if (draw.one_in(3)) setup.limits.max_spool = 10'000;
}

// Uses its own random bits, so that runs without evading requests did not change when these were added.
void draw_evasion(std::uint64_t seed, ByteSetup& setup) {
  Draw draw(seed ^ 0xeaad'0e21);
  if (draw.one_in(3)) setup.evaders = static_cast<unsigned>(draw.between(5, 40));
  setup.tunnel_resets = chance(draw, 80);
}

std::string_view recording_name(StreamRecording recording) {
  switch (recording) {
    case StreamRecording::automatic: return "auto";
    case StreamRecording::always: return "always";
    case StreamRecording::off: return "off";
  }
  return "";
}

std::string to_text(const StreamSetup& setup) {
  return fmt::format(
      "streams: {} % of keyed responses, {} % break off, {} % hang, events up to {} bytes; recorded: {}, {}, up to {} "
      "bytes, abandoned after {} ms, idle {} ms; readers: {} % resume, {} % look up, {} % leave, {} % stop reading, {} "
      "% "
      "stop the stream; a Redis loses its data {} times\n",
      setup.chance, setup.breaks, setup.hangs, setup.large_event, recording_name(setup.recording[0]),
      recording_name(setup.recording[1]), setup.max_stream, setup.abandon_after.count(), setup.idle.count(),
      setup.resumes, setup.lookups, setup.leaves_reading, setup.stops_reading, setup.stops, setup.losses);
}

}  // namespace

ByteSetup draw_byte_setup(std::uint64_t seed) {
  Draw draw(seed ^ 0x0b17e5);
  ByteSetup setup;
  setup.weather.delay = draw.one_of({Duration(0ms), Duration(5ms), Duration(100ms)});
  setup.weather.splits = chance(draw, 60);
  setup.weather.capacity = draw.one_of({std::size_t{300}, std::size_t{5000}, std::size_t{1} << 20U});
  setup.weather.cuts = chance(draw, 15);
  setup.weather.cut_within = draw.one_of({std::size_t{200}, std::size_t{2000}, std::size_t{20'000}});
  setup.weather.refuses = chance(draw, 15);
  setup.weather.stalls = chance(draw, 8);
  setup.weather.few_events = chance(draw, 60);
  setup.workers = static_cast<unsigned>(draw.between(1, 2));
  setup.call_faults = chance(draw, 60);
  setup.call_resets = chance(draw, 60);
  draw_clients(draw, setup);
  draw_backend(draw, setup);
  setup.store_answers_late = chance(draw, 20);
  setup.limits.max_connections = draw.one_in(6) ? 6 : 10'000;
  setup.limits.max_in_flight = draw.one_in(8) ? 3 : 20'000;
  setup.limits.max_body_memory = draw.one_in(5) ? std::size_t{64} << 10U : std::size_t{256} << 20U;
  setup.limits.min_rate = draw.one_of({std::size_t{0}, std::size_t{100}});
  setup.timeouts.header = draw.one_of({Duration(1s), Duration(10s)});
  setup.timeouts.body_idle = draw.one_of({Duration(1s), Duration(8s)});
  setup.timeouts.idle = draw.one_of({Duration(500ms), Duration(20s)});
  setup.max_body = draw.one_of({std::size_t{300}, std::size_t{20'000}, std::size_t{1} << 20U});
  draw_more(draw, setup);
  draw_caller_limits(draw, setup);
  setup.reloads = chance(draw, 4);
  if (draw.one_in(3)) setup.shadows = static_cast<unsigned>(draw.between(10, 60));
  if (draw.one_in(4)) setup.service_strangers = static_cast<unsigned>(draw.between(5, 40));
  draw_servers(draw, setup);
  // Health checks are best tested without much other traffic.
  if (!setup.checks_health() || !setup.reaches_servers()) setup.streams = draw_stream_setup(seed);
  if (setup.streams.any()) setup.streams.stops = draw_stops(seed);
  if (setup.streams.any()) setup.streams.losses = draw_losses(seed);
  draw_large_requests(seed, setup);
  draw_evasion(seed, setup);
  // Limit the size of events, so that each of them alone fits into memory.
  if (setup.memory_is_short()) setup.streams.large_event = std::min<std::size_t>(setup.streams.large_event, 3000);
  return setup;
}

std::string to_text(const ByteSetup& setup) {
  const Weather& weather = setup.weather;
  std::string text = fmt::format(
      "network: up to {} ms, {} % split, {} bytes on their way, {} % cut within {} bytes, {} % refused, {} % stall, {} "
      "% of turns hear of one event, of 1000 calls {} fail, of 10000 {} reset, {} % of the store's answers are late\n",
      weather.delay.count(), weather.splits, weather.capacity, weather.cuts, weather.cut_within, weather.refuses,
      weather.stalls, weather.few_events, setup.call_faults, setup.call_resets, setup.store_answers_late);
  text += fmt::format(
      "requests: {} % reuse a connection, {} % pipelined, {} % in pieces, {} % stall, {} % cut off, {} % not waited "
      "for, {} % half-closed, {} % read slowly, {} % wait for 100, {} % HTTP/1.0, {} strangers ({} % in shadow mode), "
      "{} at the service, {} on paths that evade a key; {} % of tunnels are reset\n",
      setup.reuses, setup.pipelines, setup.splits, setup.stalls, setup.leaves, setup.leaves_after, setup.half_closes,
      setup.reads_slowly, setup.expects, setup.old, setup.strangers, setup.shadows, setup.service_strangers,
      setup.evaders, setup.tunnel_resets);
  text += fmt::format(
      "responses: {} % chunked, {} % until close, {} % in parts, {} % early (then {} % read no more for a while), {} % "
      "after interim ones, {} % malformed, "
      "{} % switch unasked, {} % with bytes behind, {} % close, up to {} bytes\n",
      setup.answers_in_chunks, setup.answers_until_close, setup.answers_in_parts, setup.answers_early,
      setup.stops_reading, setup.interim, setup.malformed, setup.switches_unasked, setup.extra_bytes, setup.closes,
      setup.large_body);
  text += fmt::format(
      "limits: {} workers, {} connections, {} in flight, {} bytes of bodies, {} bytes/s, max_body {}; header {} ms, "
      "body {} ms, idle {} ms; {} reloads\n",
      setup.workers, setup.limits.max_connections, setup.limits.max_in_flight, setup.limits.max_body_memory,
      setup.limits.min_rate, setup.max_body, setup.timeouts.header.count(), setup.timeouts.body_idle.count(),
      setup.timeouts.idle.count(), setup.reloads);
  text += fmt::format("{} servers", setup.servers);
  if (setup.checks_health()) {
    text += fmt::format(", checked every {} ms for {} ms, {} failures, {} successes, {} % of the time unfit",
                        setup.health.interval.count(), setup.health.timeout.count(), setup.health.failures,
                        setup.health.successes, setup.unfit);
  }
  text += fmt::format("\na caller: {} in flight, {} new keys/s, {} bytes stored; an address: {} new keys/s (0: any)\n",
                      setup.limits.caller.in_flight, setup.limits.caller.new_keys, setup.limits.caller.stored_bytes,
                      setup.limits.address.new_keys);
  if (setup.large_requests()) {
    text += fmt::format("spool: requests larger than {} bytes, {} bytes of disk, {} % of calls fail\n",
                        setup.max_request_body, setup.limits.max_spool, setup.spool_faults);
  }
  if (setup.streams.any()) text += to_text(setup.streams);
  return text;
}

}  // namespace once::sim
