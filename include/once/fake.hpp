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

// What a guard asks of its store.
enum class Step : std::uint8_t { claim, renew, finish, release, look };

enum class Fault : std::uint8_t {
  refused,      // it is not done
  answer_lost,  // it is done, and nobody is told
  full,         // it is not done: there is no room
};

// Safe to share. Guards and claims may outlive it.
class World {
 public:
  World();

  // Each is as a process of its own; all have the same store. Of the options the store and the clock are the world's,
  // and without a secret they have a common one.
  Guard open(guard::Options options = {});

  Time now() const;
  // Leases, takeover_after and expiry go by it. Request::wait waits in real time all the same.
  void advance(guard::Duration by);

  // The next `times` steps of this kind, of all guards together. A guard asks again for a while if it is not done.
  void fail(Step step, Fault fault, unsigned times = 1);
  // Every step, until further notice.
  void go_down();
  void come_back();
  // Called before every step of any guard, on its thread: a test sees how far a call has come.
  void on_step(std::function<void(Step)> watch);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace once::fake
