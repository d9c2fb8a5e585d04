// Checks whether the store answers, one check at a time. A hanging store does not block the dashboard or /readyz, and
// many clients that ask cause only one check.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "admin/sessions.hpp"
#include "base/executor.hpp"
#include "base/task.hpp"
#include "store/lane.hpp"

namespace once::admin {

class StoreProbe {
 public:
  explicit StoreProbe(ThreadLanes& lanes) : lanes_(lanes) {}

  // Sends a check, unless one is in progress or the last is younger than `age`. From one thread at a time.
  void ask(Instant now, Duration age = Duration::zero());

  enum class State : std::uint8_t { unknown, up, down };
  // Without an answer for `patience`, the store is down.
  State state(Instant now) const;
  // A check is in progress and `patience` is not over: state() returns the previous result.
  bool undecided(Instant now) const;
  // Why it is down. Only for the log, because drivers' messages are not public.
  std::string_view error() const;

 private:
  static constexpr std::chrono::seconds patience{3};

  // Resumes question() on the lane's thread at once: all that is left to do is store the answer.
  class Home final : public Executor {
   public:
    void post(Work& work) override { work.run(work); }
    void arm(Timer& /*timer*/, Duration /*after*/) override {}
    void disarm(Timer& /*timer*/) override {}
  };
  // Outlives the probe while the store has the check.
  struct Answer {
    Home home;
    std::string error;  // written before `open` becomes false
    std::atomic<State> state = State::unknown;
    std::atomic<bool> open = false;
  };
  static Task<void> question(ThreadLanes& lanes, std::shared_ptr<Answer> answer);

  ThreadLanes& lanes_;
  Instant asked_at_{};
  std::shared_ptr<Answer> answer_ = std::make_shared<Answer>();
};

}  // namespace once::admin
