// The payments API behind `once demo`. It ignores keys, so a payment that is requested twice is made twice. Its modes
// fail like real backends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/task.hpp"
#include "http/service.hpp"

namespace once::cli {

// Listens on a free loopback port, with its own thread.
class DemoBackend final : public http::ServiceHandler {
 public:
  DemoBackend() = default;
  DemoBackend(const DemoBackend&) = delete;
  DemoBackend& operator=(const DemoBackend&) = delete;

  Result<void> start() { return thread_.start("127.0.0.1:0"); }
  const std::string& address() const { return thread_.address(); }

  // Thread-safe.
  std::uint64_t payments_made() const { return made_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t payments_kept = 100;  // in the list; all are counted

  Task<http::ServiceResponse> handle(const http::ServiceRequest& request) override;
  Task<http::ServiceResponse> pay(const http::ServiceRequest& request);
  http::ServiceResponse list() const;
  http::ServiceResponse show(std::string_view id) const;

  std::atomic<std::uint64_t> made_ = 0;
  std::deque<std::string> payments_;  // the latest ones, in JSON; used by the loop's thread
  http::ServiceThread thread_{*this, nullptr};
};

}  // namespace once::cli
