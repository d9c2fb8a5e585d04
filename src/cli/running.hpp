// A gateway with its store and admin interface, from a finished Config: what `serve` runs and `demo` shows.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "admin/admin.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "claims/claims.hpp"
#include "cli/opened_store.hpp"
#include "config/config.hpp"
#include "gateway/gateway.hpp"
#include "gateway/waiters.hpp"
#include "store/lane.hpp"

namespace once::cli {

class Running {
 public:
  explicit Running(const Config& config);

  // Opens the store, which may take a while when there is much in it, and listens.
  Result<void> start();
  // Until the signal; then drains. Returns the process's exit code.
  int wait();

  // Empty until it listens.
  std::string address() const { return gateway_ ? gateway_->address() : ""; }
  std::string admin_address() const { return admin_ ? admin_->address() : ""; }
  std::string claims_address() const { return claims_ ? claims_->address() : ""; }

 private:
  Config config_;
  SystemClock clock_;
  Log log_;
  std::unique_ptr<Log> access_log_;
  Waiters waiters_;  // before the store, which tells them
  std::optional<OpenedStore> store_;
  std::optional<ThreadLanes> lanes_;
  std::optional<Gateway> gateway_;
  ClaimsMetrics claims_metrics_;
  std::unique_ptr<Claims> claims_;
  std::unique_ptr<Admin> admin_;
};

// To be called before any thread is started: SIGINT and SIGTERM are waited for, not handled.
void block_signals();

}  // namespace once::cli
