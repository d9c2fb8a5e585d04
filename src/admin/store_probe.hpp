// Asks the store now and then whether it answers, without anybody waiting for it: a store that hangs must not keep the
// dashboard from saying so.
#pragma once

#include <atomic>
#include <memory>

#include "admin/sessions.hpp"
#include "base/executor.hpp"
#include "base/task.hpp"
#include "store/lane.hpp"

namespace once {

class StoreProbe {
 public:
  explicit StoreProbe(ThreadLanes& lanes) : lanes_(lanes) {}

  // Unless the last question is still open. One thread at a time.
  void ask(Instant now);

  enum class Said : std::uint8_t { nothing, up, down };
  // No answer for `patience` is down.
  Said said(Instant now) const;

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
    std::atomic<Said> said = Said::nothing;
    std::atomic<bool> open = false;
  };
  static Task<void> question(ThreadLanes& lanes, std::shared_ptr<Answer> answer);

  ThreadLanes& lanes_;
  Instant asked_at_{};
  std::shared_ptr<Answer> answer_ = std::make_shared<Answer>();
};

}  // namespace once
