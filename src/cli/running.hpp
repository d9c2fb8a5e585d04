// A gateway with its store and admin interface, from a finished Config: what `serve` runs and `demo` shows.
#pragma once

#include <memory>
#include <string>

#include "admin/admin.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "config/config.hpp"
#include "gateway/gateway.hpp"
#include "store/lane.hpp"
#include "store/memory/memory_store.hpp"

namespace once::cli {

class Running {
 public:
  explicit Running(const Config& config);

  Result<void> start();
  // Until the signal; then drains. Returns the process's exit code.
  int wait();

  std::string address() const { return gateway_.address(); }
  std::string admin_address() const { return admin_ ? admin_->address() : ""; }

 private:
  Config config_;
  SystemClock clock_;
  Log log_;
  std::unique_ptr<Log> access_log_;
  MemoryStore store_;
  ThreadLanes lanes_;
  Gateway gateway_;
  std::unique_ptr<Admin> admin_;
};

// To be called before any thread is started: SIGINT and SIGTERM are waited for, not handled.
void block_signals();

}  // namespace once::cli
