// Guards for the tests of programs that use one: time passes when the test says so, and the store fails where it says.
// No server, no file, no waiting.
//
//   once::fake::World world;
//   once::Guard mine = world.open();
//   once::Guard theirs = world.open();  // as another process
//   auto held = theirs.claim({.scope = "copy", .key = "k"});
//   assert(pay(mine) == "come back");
//   world.advance(10min);               // their lease is over, and takeover_after
//   assert(pay(mine) == "paid");
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include <once/guard.hpp>

namespace once::fake {

using Time = std::chrono::sys_time<guard::Duration>;

// The steps of a guard at its store.
enum class Step : std::uint8_t { claim, renew, finish, release, look };

enum class Fault : std::uint8_t {
  refused,      // the step is not done
  answer_lost,  // the step is done, but the guard gets no answer
  full,         // the step is not done, for lack of space
};

// Thread-safe. Guards and claims may outlive it.
class World {
 public:
  World();

  // Each guard acts as a separate process; all share the store. The options for store and clock are ignored, and
  // without a secret they use a common one.
  Guard open(guard::Options options = {});

  Time now() const;
  // Advances the clock of leases, takeover_after and expiry. Request::wait still waits in real time.
  void advance(guard::Duration by);

  // Makes the next `times` steps of this kind fail, of all guards together. A guard retries for a while.
  void fail(Step step, Fault fault, unsigned times = 1);
  // Makes every step fail, until come_back().
  void go_down();
  void come_back();
  // Called before every step of any guard, on its thread, so a test can see how far a call has come.
  void on_step(std::function<void(Step)> watch);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace once::fake
