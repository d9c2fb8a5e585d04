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

  // Unless the last question is still open, or younger than `age`. One thread at a time.
  void ask(Instant now, Duration age = Duration::zero());

  enum class Said : std::uint8_t { nothing, up, down };
  // No answer for `patience` is down.
  Said said(Instant now) const;
  // A question is open, and `patience` is not over: said() is that of the one before.
  bool undecided(Instant now) const;
  // Why it is down. For the log: what a driver says is not for everybody.
  std::string_view error() const;

 private:
  static constexpr std::chrono::seconds patience{3};

  // The lane's own thread goes on with the question, which then has nothing to do but note the answer.
  class Home final : public Executor {
   public:
    void post(Work& work) override { work.run(work); }
    void arm(Timer& /*timer*/, Duration /*after*/) override {}
    void disarm(Timer& /*timer*/) override {}
  };
  // Outlives the probe while the store has its question.
  struct Answer {
    Home home;
    std::string error;  // written before `open` turns false
    std::atomic<Said> said = Said::nothing;
    std::atomic<bool> open = false;
  };
  static Task<void> question(ThreadLanes& lanes, std::shared_ptr<Answer> answer);

  ThreadLanes& lanes_;
  Instant asked_at_{};
  std::shared_ptr<Answer> answer_ = std::make_shared<Answer>();
};

}  // namespace once::admin
