// How a program tests its own use of a guard: on the library's double. Built against an installed tree, as
// docs/guides/library.md shows it.
#include <functional>
#include <future>
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

// What an asynchronous program has: it starts a job, and is told when it is done.
void start_job(std::move_only_function<void(std::string)> done);

void charge_async(once::Guard& guard, std::move_only_function<void(std::string)> told) {
  guard.claim_async({.scope = "charges", .key = "order-8", .wait = 30s},
                    [told = std::move(told)](once::guard::Claimed claimed) mutable {
                      if (!claimed.claim) return told(claimed.outcome.value.value_or("come back"));
                      start_job([told = std::move(told), claim = std::move(*claimed.claim)](std::string paid) mutable {
                        claim.succeed_async(paid, "text/plain", [told = std::move(told)](auto outcome) mutable {
                          told(outcome.value.value_or("unknown"));
                        });
                      });
                    });
}

void start_job(std::move_only_function<void(std::string)> done) {
  done("charged");
}

std::string charged_async(once::Guard& guard) {
  std::promise<std::string> told;
  charge_async(guard, [&](std::string text) { told.set_value(std::move(text)); });
  return told.get_future().get();
}

int main() {
  if (!a_second_worker_waits_and_takes_over() || !nothing_is_charged_while_the_store_is_down()) return 1;
  once::fake::World world;
  Trace trace;
  once::Guard async = world.open();
  if (charged_async(async) != "charged" || charged_async(async) != "charged" || async.counts().fresh != 1) return 1;
  once::Guard guard = traced(world, trace);
  std::stop_source stop;
  if (!stoppable(guard, stop.get_token()).succeeded() || trace.work_ms <= 0) return 1;
  stop.request_stop();
  const auto stopped = stoppable(guard, stop.get_token());
  const auto thrown =
      guard.run({.scope = "s", .key = "k"}, []() -> std::string { throw std::runtime_error("no money"); });
  return stopped.reason == once::guard::Reason::cancelled && thrown.exception && guard.ping() ? 0 : 1;
}
