// Health checks: sends each server a GET of health.path every health.interval, on its own loop and thread.
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
  // Watches the upstreams that have a health.path. The upstreams and `faults` outlive this. With `net` there is no
  // thread: the caller runs loop() on that network, and after stop() until it ends.
  UpstreamWatch(const std::vector<std::unique_ptr<UpstreamState>>& upstreams, const Log& log,
                http::FaultListener& faults, http::Net* net = nullptr);
  UpstreamWatch(const UpstreamWatch&) = delete;
  UpstreamWatch& operator=(const UpstreamWatch&) = delete;
  ~UpstreamWatch();

  bool has_checks() const { return !checks_.empty(); }
  http::Loop& loop() { return loop_; }
  // Call once, from any thread: starts no more checks; the loop ends when the running ones have.
  void stop() { loop_.post(*this); }

 private:
  class Check;

  void stop_checks();
  void ended();

  const Log& log_;
  http::Loop loop_;
  std::vector<std::unique_ptr<Check>> checks_;
  std::size_t running_ = 0;  // checks in progress
  bool stopping_ = false;
  std::jthread thread_;
};

}  // namespace once::gateway
