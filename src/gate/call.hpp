// Something the gate is at, from the first job about it to its end: a request, or work. On the loop's thread.
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

  // When it returns the call is over.
  virtual Task<void> run() = 0;

  // Nobody needs it any more: what waits for an owner ends, and a claim is given back. No effect on a claim that was
  // handed out.
  void cancel(std::uint64_t tag) {
    if (tag != tag_) return;
    cancelled_ = true;
    end_wait();
  }
  // The gate stops: what waits for an owner ends.
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

// Looks now and then whether a claim is still ours, while its holder is at work. To be stopped before it is destroyed.
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
