// The payments API that `once demo` stands in front of: it knows nothing of keys, so a payment that is asked for twice
// is made twice. Its modes go wrong in the ways that real backends do.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/error.hpp"
#include "base/executor.hpp"
#include "base/task.hpp"
#include "http/loop.hpp"
#include "http/service.hpp"

namespace once::cli {

// On a loopback address with a free port, and on a thread of its own.
class DemoBackend final : public http::ServiceHandler {
 public:
  DemoBackend() = default;
  DemoBackend(const DemoBackend&) = delete;
  DemoBackend& operator=(const DemoBackend&) = delete;
  ~DemoBackend();

  Result<void> start();
  const std::string& address() const { return address_; }

  // From any thread.
  std::uint64_t payments_made() const { return made_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t payments_kept = 100;  // for the list; all are counted

  struct StopWork : Work {
    DemoBackend* backend = nullptr;
  };

  Task<http::ServiceResponse> handle(const http::ServiceRequest& request) override;
  Task<http::ServiceResponse> pay(const http::ServiceRequest& request);
  http::ServiceResponse list() const;
  http::ServiceResponse show(std::string_view id) const;

  std::string address_;
  std::atomic<std::uint64_t> made_ = 0;
  std::deque<std::string> payments_;  // JSON each, the last ones; of the loop's thread
  http::Loop loop_;
  std::unique_ptr<http::Service> service_;  // made and destroyed on the thread
  StopWork stop_;
  std::jthread thread_;
};

}  // namespace once::cli
