#include "cli/running.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "store/server/store_url.hpp"

namespace once::cli {

namespace {

unsigned thread_count(const Config& config) {
  return config.threads != 0 ? config.threads : std::max(1U, std::thread::hardware_concurrency());
}

ServingSettings serving_of(const Config& config) {
  return {.upstreams = config.upstreams,
          .routes = config.routes,
          .limits = config.limits,
          .timeouts = config.timeouts,
          .pool = config.pool};
}

GatewaySettings settings_of(const Config& config) {
  return {.listen = config.listen,
          .threads = thread_count(config),
          .secret = config.secret,
          .errors_base = config.errors_base,
          .serving = serving_of(config)};
}

sigset_t end_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGTERM);
  ::sigaddset(&set, SIGHUP);
  return set;
}

int wait_for_signal() {
  const sigset_t set = end_signals();
  int signal = 0;
  while (::sigwait(&set, &signal) != 0) {
  }
  return signal;
}

}  // namespace

void block_signals() {
  const sigset_t set = end_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);  // a reader of our log that goes away must not end us
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is a full disk: the write says so
}

Running::Running(const Config& config)
    : config_(config),
      log_(clock_, STDERR_FILENO, config.log.level, config.log.format),
      access_log_(config.log.access ? std::make_unique<Log>(clock_, STDOUT_FILENO, LogLevel::info, config.log.format)
                                    : nullptr) {}

Result<void> Running::start() {
  auto store = OpenedStore::open(config_, clock_, log_);
  if (!store) return std::unexpected(store.error());
  store_ = std::move(*store);
  store_->store().tell_ends([this](const OperationId& id) { waiters_.notify(id); });
  lanes_.emplace(store_->store(), LaneLimits{.lanes = store_->lanes()});
  gateway_.emplace(
      settings_of(config_),
      GatewayPorts{
          .store = *lanes_, .waiters = waiters_, .clock = clock_, .log = log_, .access_log = access_log_.get()});
  if (auto started = gateway_->start(); !started) return started;
  if (config_.claims.listen != "off") {
    const ClaimsPorts ports{.store = *lanes_, .waiters = waiters_, .log = log_, .metrics = claims_metrics_};
    claims_ = std::make_unique<Claims>(config_.claims, config_.secret, config_.errors_base, ports);
    if (auto started = claims_->start(); !started) return started;
  }
  if (config_.admin != "off") {
    admin_ = std::make_unique<Admin>(config_.admin, AdminSources{.gateway = *gateway_,
                                                                 .store = *lanes_,
                                                                 .memory = store_->memory(),
                                                                 .journal = store_->journal(),
                                                                 .server = store_->server(),
                                                                 .claims = claims_metrics_,
                                                                 .version = ONCE_VERSION});
    if (auto started = admin_->start(); !started) return started;
  }
  log_.info("listening", {{"address", address()},
                          {"admin", admin_address()},
                          {"claims", claims_address()},
                          {"store", without_password(config_.store)}});
  return {};
}

int Running::wait() {
  int signal = wait_for_signal();
  while (signal == SIGHUP) {
    log_.warn("SIGHUP ignored: settings are read at the start only");
    signal = wait_for_signal();
  }
  log_.info("draining", {{"limit_ms", config_.timeouts.drain.count()}});
  if (admin_) admin_->set_draining();
  gateway_->drain({.limit = config_.timeouts.drain});
  // A second signal means now.
  std::thread([] {
    wait_for_signal();
    std::_Exit(1);
  }).detach();
  if (claims_) claims_->stop();
  const Gateway::Ended ended = gateway_->join();
  if (ended == Gateway::Ended::cut_off) {
    // What was cut off holds memory that nobody will free, and claims that will read as unknown.
    log_.warn("stopped with requests at work; their outcomes are unknown");
    std::_Exit(0);
  }
  lanes_->stop();
  log_.info("stopped");
  return 0;
}

}  // namespace once::cli
