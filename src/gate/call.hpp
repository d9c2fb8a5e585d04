// A call of a gate in progress: a request, or work. It runs on the loop's thread, from its first job to its end.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/executor.hpp"
#include "base/task.hpp"
#include "gate/held.hpp"
#include "gateway/exchange/backend.hpp"
#include "store/owner_wait.hpp"

namespace once::gate {

class Call : public Presence {
 public:
  explicit Call(std::uint64_t tag) : tag_(tag) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  virtual ~Call() = default;

  // The call is over when this returns.
  virtual Task<void> run() = 0;

  // Called when the caller cancels: ends a wait for an owner, and releases a new claim. No effect on a claim that was
  // handed out.
  void cancel(std::uint64_t tag) {
    if (tag != tag_) return;
    cancelled_ = true;
    end_wait();
  }
  // Called when the gate stops: ends a wait for an owner.
  void end_wait() {
    left_ = true;
    if (listener_ != nullptr) listener_->client_left();
  }

  bool listen(Listener& listener) override {
    if (left_) return false;
    listener_ = &listener;
    return true;
  }
  void stop_listening() override { listener_ = nullptr; }
  bool has_left() override { return left_; }

 protected:
  bool cancelled() const { return cancelled_; }

 private:
  const std::uint64_t tag_;
  bool cancelled_ = false;
  bool left_ = false;
  Listener* listener_ = nullptr;
};

// Checks regularly whether another attempt owns the claim while its holder works. Call stop() before destruction.
class LossWatch final : private Timer {
 public:
  explicit LossWatch(Executor& home) : home_(home) {
    fire = [](Timer& timer) { static_cast<LossWatch&>(timer).look(); };
  }

  void start(const SendPermit& permit, LostFlag flag) {
    permit_ = &permit;
    flag_ = std::move(flag);
    home_.arm(*this, between_looks);
  }
  void stop() { home_.disarm(*this); }

 private:
  static constexpr Duration between_looks = std::chrono::milliseconds(250);

  void look() {
    const bool lost = !permit_->may_send();
    flag_->store(lost, std::memory_order_relaxed);
    home_.arm(*this, between_looks);
  }

  Executor& home_;
  const SendPermit* permit_ = nullptr;
  LostFlag flag_;
};

}  // namespace once::gate
