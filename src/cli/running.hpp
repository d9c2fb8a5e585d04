// A gateway with its store and admin interface, from a finished Config: what `serve` runs and `demo` shows.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "admin/admin.hpp"
#include "admin/keys.hpp"
#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "claims/claims.hpp"
#include "cli/handover.hpp"
#include "cli/opened_store.hpp"
#include "config/config.hpp"
#include "config/load.hpp"
#include "gateway/gateway.hpp"
#include "gateway/waiters.hpp"
#include "store/lane.hpp"

namespace once::cli {

// How a process that runs on can be changed. Empty members: not at all.
struct Renewal {
  // The configuration, read and finished anew; warnings are added.
  std::function<std::expected<Config, ConfigErrors>(ConfigErrors& warnings)> reread;
  std::vector<std::string> command;  // starts a successor
  Origin origin;
};

class Running final : private ReloadPort {
 public:
  explicit Running(const Config& config, Renewal renewal = {});

  // Opens the store, which may take a while when there is much in it, and listens.
  Result<void> start();
  // Until the signal; then drains. Returns the process's exit code.
  int wait();

  // Empty until it listens.
  std::string address() const { return gateway_ ? gateway_->address() : ""; }
  std::string tls_address() const { return gateway_ ? gateway_->tls_address() : ""; }
  std::string admin_address() const { return admin_ ? admin_->address() : ""; }
  std::string claims_address() const { return claims_ ? claims_->address() : ""; }

 private:
  enum class Ended : std::uint8_t { no, yes };

  void ask(ReloadRequest& request) override;
  void answer_reloads();
  void end_reloads();
  ReloadAnswer reload(ReloadKind kind);

  void look_round();
  Ended on_signal(int signal);
  Ended on_successor();
  void start_successor();
  void give_up_store();
  void drain(bool successor);
  int finish();

  std::vector<int> inherited(std::string_view name) const;
  void notify(std::string_view state) const;

  Config config_;
  Renewal renewal_;
  SystemClock clock_;
  Log log_;
  std::unique_ptr<Log> access_log_;
  Waiters waiters_;  // before the store, which tells them
  std::optional<OpenedStore> store_;
  std::optional<ThreadLanes> lanes_;
  std::optional<Gateway> gateway_;
  ClaimsMetrics claims_metrics_;
  std::unique_ptr<Claims> claims_;
  std::unique_ptr<KeysApi> keys_;  // before the admin interface, which serves it
  std::unique_ptr<Admin> admin_;
  std::optional<Successor> successor_;
  std::uint64_t trimmed_at_ = 0;
  std::mutex asking_;
  std::vector<ReloadRequest*> asked_;
  bool ending_ = false;
  Descriptor asked_event_;  // readable when somebody asks for a reload
};

// To be called before any thread is started: SIGINT, SIGTERM, SIGHUP and SIGUSR2 are waited for, not handled.
void block_signals();

}  // namespace once::cli
