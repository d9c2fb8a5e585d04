// Runs coroutines on a real loop until they have ended. A test that takes longer than `patience` has failed.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/task.hpp"
#include "http/endpoint.hpp"
#include "http/kernel_net.hpp"
#include "http/loop.hpp"
#include "http/socket.hpp"

namespace once::http {

inline constexpr std::chrono::seconds patience(20);
// For waits that must not be the ones that end.
inline constexpr Duration long_enough = std::chrono::hours(1);

// One loop, to be run once.
class LoopRun {
 public:
  LoopRun() {
    watchdog_.owner = this;
    watchdog_.fire = [](Timer& timer) {
      static_cast<Watchdog&>(timer).owner->timed_out_ = true;
      static_cast<Watchdog&>(timer).owner->loop.stop();
    };
  }

  void start(Task<void> task) {
    ++running_;
    spawn(counted(std::move(task)));
  }
  template <class... Tasks>
  void play(Tasks... tasks) {
    (start(std::move(tasks)), ...);
    run();
  }
  // Until everything that was started has ended.
  void run() {
    if (--running_ == 0) return;
    loop.arm(watchdog_, patience);
    loop.run();
    loop.disarm(watchdog_);
    ASSERT_FALSE(timed_out_) << running_ << " coroutines never ended";
  }

  Loop loop;

 private:
  struct Watchdog : Timer {
    LoopRun* owner = nullptr;
  };

  Task<void> counted(Task<void> task) {
    co_await task;
    if (--running_ == 0) loop.stop();
  }

  Watchdog watchdog_;
  int running_ = 1;  // one for run() itself, so that what ends at once does not stop the loop before it ran
  bool timed_out_ = false;
};

struct Pair {
  int near;
  int far;
};

inline Pair local_pair() {
  std::array<int, 2> fds{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()), 0);
  return {fds[0], fds[1]};
}

// Over loopback, for what only TCP does.
inline Pair tcp_pair() {
  const auto listeners = listen_on(*resolve_listener("127.0.0.1:0"), 1);
  EXPECT_TRUE(listeners.has_value());
  const int listener = listeners->front();
  const auto near = start_connect(kernel_net(), bound_endpoint(listener));
  EXPECT_TRUE(near.has_value());
  ::fcntl(listener, F_SETFL, 0);  // the kernel has the connection in a moment
  const int far = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  EXPECT_GE(far, 0);
  ::close(listener);
  return {*near, far};
}

// So that a large write takes many turns.
inline void shrink_send_buffer(const Pair& pair) {
  const int small = 4096;
  ::setsockopt(pair.near, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
}

}  // namespace once::http
