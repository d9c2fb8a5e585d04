// One thread's event loop: readiness, timers and work posted from other threads. Everything a coroutine awaits in this
// folder resumes from here, so state that belongs to a loop needs no lock.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <span>

#include "base/executor.hpp"
#include "http/buffer.hpp"
#include "http/fault.hpp"
#include "http/net.hpp"
#include "http/timer_wheel.hpp"

namespace once::http {

// A file descriptor that is watched for readiness (edge-triggered).
class Pollable {
 public:
  virtual void on_ready(std::uint32_t events) = 0;

 protected:
  ~Pollable() = default;
};

// The limits of one callback before other connections get a turn. A step is a socket operation that did not have to
// wait. Without limits, a peer that is always ready would monopolise the thread.
inline constexpr std::size_t most_steps_at_once = 64;
inline constexpr std::size_t most_bytes_at_once = std::size_t{256} << 10U;

class Loop final : public Executor {
 public:
  // Uses the kernel's network.
  Loop();
  // Uses this network, which outlives the loop.
  explicit Loop(Net& net);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop() override;

  // Runs until stop(). Call it once.
  void run();
  // Thread-safe.
  void stop();

  enum class After : std::uint8_t { running, stopped };
  // Instead of run(), for a loop in virtual time: handles what is ready now, without waiting.
  After run_ready();
  // The time until the next timer or posted work; -1: there is none.
  int wait_milliseconds() const;

  Net& net() const { return net_; }

  void post(Work& work) override;
  void post_all(std::span<Work* const> works) override;
  void arm(Timer& timer, Duration after) override { wheel_.arm(timer, now_tick(), after); }
  void disarm(Timer& timer) override { wheel_.disarm(timer); }

  // Call after every step. When the budget is used up, the next step waits for the loop's next round.
  void spend(std::size_t bytes) {
    ++steps_;
    bytes_ += bytes;
  }
  bool spent() const { return steps_ >= most_steps_at_once || bytes_ >= most_bytes_at_once; }
  // Fires after everything that is ready now has been handled. disarm() works as for any timer.
  void arm_next_turn(Timer& timer);

  // The network's monotonic time when the loop last woke up.
  std::chrono::nanoseconds now() const { return now_; }

  // Fails if the kernel cannot watch another descriptor.
  [[nodiscard]] bool add(int fd, Pollable& pollable);
  // Afterwards the pollable gets no more events, not even those already fetched. Call it before closing the descriptor:
  // epoll continues to watch a closed descriptor that another process has open.
  void forget(int fd, Pollable& pollable);

  // Shared by the buffers of this loop's connections.
  Windows& windows() { return windows_; }

  // Reports faults of this loop's connections to the listener, which outlives them. Without one, faults are written to
  // stderr.
  void listen(FaultListener& listener) { fault_listener_ = &listener; }
  void report(const ConnectionFault& fault);
  void report_out_of_descriptors(DescriptorUse use, std::string_view error);

 private:
  static constexpr std::size_t events_per_wait = 256;

  std::int64_t now_tick() const { return now_ / TimerWheel::tick; }
  void turn(int milliseconds);
  void run_posted();
  void run_own();
  void run_next_turn();
  void renew_budget() { steps_ = bytes_ = 0; }
  void wake();

  Net& net_;
  std::unique_ptr<Poller> poller_;
  TimerWheel wheel_;
  Timer next_turn_;  // list head
  std::size_t steps_ = 0;
  std::size_t bytes_ = 0;
  std::chrono::nanoseconds now_;
  std::array<epoll_event, events_per_wait> events_{};
  std::span<epoll_event> fetched_;  // not yet delivered
  Windows windows_;
  FaultListener* fault_listener_ = nullptr;
  std::atomic<pthread_t> thread_{};
  Work* own_ = nullptr;     // posted by this thread, oldest first
  Work** own_end_ = &own_;  // the end of that list
  std::atomic<Work*> posted_ = nullptr;
  std::atomic<bool> wake_sent_ = false;
  std::atomic<bool> stopping_ = false;
};

// Waits until the loop, which runs on another thread, has begun a new round: everything from before the call is done.
void wait_for_turn(Loop& loop);

}  // namespace once::http
