// A gateway with its store and admin interface, from a prepared Config, for `serve` and `demo`.
#pragma once

#include <chrono>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "admin/admin.hpp"
#include "admin/keys.hpp"
#include "base/backoff.hpp"
#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/line_writer.hpp"
#include "base/log.hpp"
#include "claims/claims.hpp"
#include "cli/descriptors.hpp"
#include "cli/handover.hpp"
#include "config/config.hpp"
#include "config/load.hpp"
#include "gateway/gateway.hpp"
#include "http/activation.hpp"
#include "http/watchdog.hpp"
#include "store/catalog/catalog.hpp"
#include "store/lane.hpp"
#include "store/waiters.hpp"

namespace once::cli {

// How to reload or replace a running process. An empty member: that is not possible.
struct Renewal {
  // Reads and prepares the configuration again; appends warnings.
  std::function<std::expected<Config, ConfigErrors>(ConfigErrors& warnings)> reread;
  std::vector<std::string> command;  // the command line of a successor
  Origin origin;
};

// For idle connections during a handover.
inline constexpr Duration idle_grace = std::chrono::seconds(1);

class Running final : private ReloadPort {
 public:
  explicit Running(const Config& config, Renewal renewal = {});

  // Opens the store, which may take a while if it is large, and listens.
  Result<void> start();
  // Runs until a signal, then drains. Returns the process's exit code.
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
  // Opens the access log that `config` names.
  Result<void> open_access_log(const Config& config);
  void reopen_access_log();

  void do_regular_work();
  int poll_milliseconds() const;
  void watch_loops(std::chrono::nanoseconds limit);
  Ended on_signal(int signal);

  // In running_handover.cpp: from SIGUSR2 until the successor serves.
  enum class Handover : std::uint8_t {
    none,
    starting,  // this process serves; the successor of a shared store opens its own connections meanwhile
    emptying,  // new connections wait until no request in progress needs the store
    given,     // the successor has the store; neither process serves yet
  };
  void start_successor();
  Ended on_successor();
  Ended go_on_handing_over();
  void begin(Handover step);
  void pause();
  void close_claims();
  void end_claims();
  void give_up_store();
  Ended take_back(std::string_view why);
  void serve_again();
  void lose_store(const Error& error);
  void reopen_store();

  Ended drain_now();
  void drain(bool successor);
  int join();

  Result<void> start_claims(const std::vector<int>& inherited);
  std::vector<int> inherited(std::string_view name) const;
  void close_unused_sockets() const;
  void notify(std::string_view state) const;

  Config config_;
  Renewal renewal_;
  http::ServiceManager manager_;
  SystemClock clock_;
  Log log_;
  const Time started_at_ = clock_.now();
  DescriptorBudget descriptors_;
  http::Watchdog watchdog_;  // outlives the loops that it watches
  LineWriter access_;
  Waiters waiters_;  // outlives the store, which notifies them
  std::optional<OpenedStore> store_;
  std::optional<ThreadLanes> lanes_;
  std::optional<Gateway> gateway_;
  ClaimsMetrics claims_metrics_;
  std::unique_ptr<Claims> claims_;
  std::unique_ptr<KeysApi> keys_;  // outlives the admin interface, which uses it
  std::unique_ptr<Admin> admin_;
  std::optional<Successor> successor_;
  Handover handover_ = Handover::none;
  std::chrono::nanoseconds step_began_{};
  Descriptor claims_socket_;                           // kept open while claims are paused
  std::optional<std::chrono::nanoseconds> drains_at_;  // set once a signal to stop came: when the drain starts
  // set if the store was closed and could not be opened again: when to retry
  std::optional<std::chrono::nanoseconds> reopens_at_;
  Backoff reopening_pauses_{std::chrono::seconds(1), std::chrono::seconds(10)};
  std::uint64_t trimmed_at_ = 0;
  std::mutex asking_;
  std::vector<ReloadRequest*> asked_;
  bool ending_ = false;
  Descriptor signals_;      // made early: without it signals could not end the process
  Descriptor asked_event_;  // readable when a reload is requested
};

// Call before any thread is started: SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are read from a descriptor instead of
// handled.
void block_signals();
// Signals of scripts that rotate logs or reload would end a process that is just starting: from here on they wait until
// it runs. SIGINT and SIGTERM still end a process that reads its configuration.
void hold_signals();

}  // namespace once::cli
