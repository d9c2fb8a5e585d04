// Asks the servers of backends how they are: a GET of health.path every health.interval, on a loop and a thread of its
// own.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "base/log.hpp"
#include "gateway/upstream/upstream_state.hpp"
#include "http/loop.hpp"

namespace once::gateway {

class UpstreamWatch final : private Work {
 public:
  // Watches the upstreams that have a health.path. They outlive this, and so does `faults`. With `net` there is no
  // thread: the caller runs loop() on that network, and after stop() until it ends.
  UpstreamWatch(const std::vector<std::unique_ptr<UpstreamState>>& upstreams, const Log& log,
                http::FaultListener& faults, http::Net* net = nullptr);
  UpstreamWatch(const UpstreamWatch&) = delete;
  UpstreamWatch& operator=(const UpstreamWatch&) = delete;
  ~UpstreamWatch();

  bool has_checks() const { return !checks_.empty(); }
  http::Loop& loop() { return loop_; }
  // From any thread, once: no more checks, and the loop ends when those at work have.
  void stop() { loop_.post(*this); }

 private:
  class Check;

  void stop_checks();
  void ended();

  const Log& log_;
  http::Loop loop_;
  std::vector<std::unique_ptr<Check>> checks_;
  std::size_t running_ = 0;  // checks that are at work
  bool stopping_ = false;
  std::jthread thread_;
};

}  // namespace once::gateway
