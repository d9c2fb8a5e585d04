// How a program tests its own use of a guard: on the library's double. Built against an installed tree, as
// docs/library.md shows it.
#include <cstdio>
#include <stdexcept>
#include <string>

#include <once/fake.hpp>

using namespace std::chrono_literals;

std::string charge(once::Guard& guard) {
  const auto result = guard.run({.scope = "charges", .key = "order-7"}, [] { return std::string("charged"); });
  return result.succeeded() ? *result.value : std::string(result.stop_reason());
}

bool a_second_worker_waits_and_takes_over() {
  once::fake::World world;
  once::Guard mine = world.open();
  once::Guard theirs = world.open();  // as another process
  const auto held = theirs.claim({.scope = "charges", .key = "order-7"});
  const bool waits = charge(mine) == "in_progress";
  world.advance(10min);  // they are gone: their lease is over, and takeover_after
  return waits && charge(mine) == "charged" && charge(theirs) == "charged";
}

bool nothing_is_charged_while_the_store_is_down() {
  once::fake::World world;
  once::Guard guard = world.open();
  world.go_down();
  const bool refused = charge(guard) == "store_unavailable";
  world.come_back();
  return refused && charge(guard) == "charged";
}

struct Trace {
  double work_ms = 0;
};

once::Guard traced(once::fake::World& world, Trace& trace) {
  return world.open({.observe = [&trace](const once::guard::Observed& call) {
    trace.work_ms += std::chrono::duration<double, std::milli>(call.working).count();
  }});
}

once::Outcome<std::string> stoppable(once::Guard& guard, const std::stop_token& stop) {
  const auto work = [](const once::guard::Running& running) -> std::expected<std::string, std::string> {
    if (running.stop_token().stop_requested()) return std::unexpected("stopped");
    return "done";
  };
  return guard.run({.scope = "reports", .key = "today", .wait = 30s}, work, stop);
}

int main() {
  if (!a_second_worker_waits_and_takes_over() || !nothing_is_charged_while_the_store_is_down()) return 1;
  once::fake::World world;
  Trace trace;
  once::Guard guard = traced(world, trace);
  std::stop_source stop;
  if (!stoppable(guard, stop.get_token()).succeeded() || trace.work_ms <= 0) return 1;
  stop.request_stop();
  const auto stopped = stoppable(guard, stop.get_token());
  const auto thrown =
      guard.run({.scope = "s", .key = "k"}, []() -> std::string { throw std::runtime_error("no money"); });
  return stopped.reason == once::guard::Reason::cancelled && thrown.exception && guard.ping() ? 0 : 1;
}
