#include "cli/running.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <malloc.h>
#include <poll.h>

#include "cli/hidden_values.hpp"
#include "config/prepare.hpp"
#include "config/reload.hpp"
#include "config/serving.hpp"
#include "store/server/store_url.hpp"

namespace once::cli {

namespace {

constexpr Duration access_patience = std::chrono::seconds(2);  // for a slow reader of the access log, at the end
// An event loop has two, and there may be two listeners.
constexpr std::size_t descriptors_of_thread = 4;
constexpr int look_round_milliseconds = 1000;
constexpr int store_look_milliseconds = 10;
// Memory that connections release stays with the process, in fragments, until it is trimmed.
constexpr std::uint64_t trim_after_releases = 256;

unsigned thread_count(const Config& config) {
  return config.threads != 0 ? config.threads : std::max(1U, std::thread::hardware_concurrency());
}

ServingSettings serving_of(const Config& config, const DescriptorBudget& descriptors, const Log& log) {
  ServingSettings settings = serving_settings(config);
  const ConnectionLimit connections = connection_limit(config, descriptors);
  settings.limits.max_connections = connections.connections;
  if (connections.needed != 0) {
    log.warn("too few file descriptors for limits.max_connections", {{"max_connections", config.max_connections},
                                                                     {"served", connections.connections},
                                                                     {"descriptors", descriptors.limit},
                                                                     {"needed", connections.needed}});
  }
  return settings;
}

FixedLimits limits_of(const Config& config) {
  return {.claims_connections = config.claims.max_connections, .claims_waiting = config.claims.max_waiting};
}

// For people: shows the absolute path of a journal.
std::string store_text(const Config& config) {
  if (!config.store.starts_with("journal:")) return without_password(config.store);
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::absolute(journal_folder(config), error);
  return "journal:" + (error ? journal_folder(config) : folder.lexically_normal().string());
}

// "journal:/var/lib/once" → "journal"
std::string kind_of(std::string_view store) {
  return std::string(store.substr(0, store.find(':')));
}

sigset_t signals_of(std::initializer_list<int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) ::sigaddset(&set, signal);
  return set;
}

sigset_t awaited_signals() {
  return signals_of({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2});
}

Descriptor signal_descriptor() {
  const sigset_t set = awaited_signals();
  return Descriptor(::signalfd(-1, &set, SFD_CLOEXEC));
}

// Reads one pending signal.
int take_signal(int descriptor) {
  signalfd_siginfo info{};
  return ::read(descriptor, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

void refuse(ReloadRequest& request) {
  request.answer.errors = {"this process is shutting down"};
  request.home.post(request);
}

}  // namespace

void hold_signals() {
  const sigset_t set = signals_of({SIGHUP, SIGUSR1, SIGUSR2});
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void block_signals() {
  const sigset_t set = awaited_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);  // writing to a closed log must not end the process
  ::signal(SIGXFSZ, SIG_IGN);  // a file size limit acts like a full disk: the write reports it
}

Running::Running(const Config& config, Renewal renewal)
    : config_(config),
      renewal_(std::move(renewal)),
      manager_(renewal_.origin.notify_socket),
      log_(clock_, STDERR_FILENO, config.log.level, config.log.format),
      access_(log_),
      signals_(signal_descriptor()),
      asked_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

// Inherited sockets of this name. Sockets with an unknown name are for clients, without TLS.
std::vector<int> Running::inherited(std::string_view name) const {
  std::vector<int> found;
  for (const http::InheritedSocket& socket : renewal_.origin.sockets) {
    const bool ours = socket.name == "admin" || socket.name == "claims" || socket.name == "tls";
    if (ours ? socket.name == name : name == "http") found.push_back(socket.fd);
  }
  return found;
}

// Closes the predecessor's sockets that the settings do not use any more: connections to them would not be answered.
void Running::close_unused_sockets() const {
  const auto close_all = [this](std::string_view name) {
    for (const int socket : inherited(name)) ::close(socket);
  };
  if (config_.claims.listen == "off") close_all("claims");
  if (config_.admin == "off") close_all("admin");
}

void Running::notify(std::string_view state) const {
  manager_.notify(state);
}

Result<void> Running::open_access_log(const Config& config) {
  if (!config.log.access) return {};
  const auto opened = access_.open(config.log.access_file, config.log.format);
  if (opened) return {};
  return std::unexpected(
      Error{.source = ErrorSource::system,
            .retryable = Retryable::no,
            .detail = fmt::format("log.access_file: {}: {}", config.log.access_file, opened.error())});
}

void Running::reopen_access_log() {
  const auto opened = access_.reopen();
  if (opened) return;
  log_.error("access log not reopened; still writing to the old file",
             {{"file", without_hidden(config_.log.access_file)}, {"error", opened.error()}});
}

Result<void> Running::start() {
  descriptors_.limit = raise_descriptor_limit();
  if (auto opened = open_access_log(config_); !opened) return opened;
  // A dying process may hold the journal for a moment after its end of the channel is closed.
  const bool replaces = renewal_.origin.predecessor.exists();
  renewal_.origin.predecessor.send_checked();
  StoreSettings settings = store_settings(config_);
  if (replaces) settings.patience = config_.timeouts.handover;
  auto store = open_store(config_.store, settings, {.clock = clock_, .log = log_});
  if (!store) return std::unexpected(store.error());
  store_ = std::move(*store);
  store_->store().notify_of_ends([this](const OperationId& id) { waiters_.notify(id); });
  lanes_.emplace(store_->store(), LaneLimits{.lanes = store_->lanes});
  descriptors_.in_use = descriptors_in_use() + descriptors_of_thread * thread_count(config_);
  gateway_.emplace(
      GatewaySettings{.listen = config_.listen,
                      .inherited = inherited("http"),
                      .inherited_tls = inherited("tls"),
                      .threads = thread_count(config_),
                      .secret = config_.secret,
                      .errors_base = config_.errors_base,
                      .serving = serving_of(config_, descriptors_, log_)},
      GatewayPorts{.store = *lanes_, .waiters = waiters_, .clock = clock_, .log = log_, .access = access_});
  if (auto started = gateway_->start(); !started) return started;
  close_unused_sockets();
  if (auto started = start_claims(inherited("claims")); !started) return started;
  if (config_.admin != "off") {
    const KeysPorts ports{.gateway = *gateway_,
                          .store = *lanes_,
                          .waiters = waiters_,
                          .clock = clock_,
                          .log = log_,
                          .count_every = config_.count_keys_every};
    keys_ = std::make_unique<KeysApi>(config_.secret, config_.audit_log, ports);
    admin_ = std::make_unique<Admin>(config_.admin, config_.admin_token_secret,
                                     AdminSources{.gateway = *gateway_,
                                                  .store = *lanes_,
                                                  .claims = claims_metrics_,
                                                  .reload = *this,
                                                  .keys = *keys_,
                                                  .clock = clock_,
                                                  .log = log_,
                                                  .limits = limits_of(config_),
                                                  .ready_checks = config_.ready_checks,
                                                  .started_at = started_at_,
                                                  .store_kind = kind_of(config_.store),
                                                  .version = ONCE_VERSION});
    if (auto started = admin_->start(inherited("admin")); !started) return started;
  }
  log_.info("listening", {{"address", address()},
                          {"tls", tls_address()},
                          {"admin", admin_address()},
                          {"claims", claims_address()},
                          {"store", store_text(config_)}});
  watch_loops(renewal_.origin.watchdog);
  renewal_.origin.predecessor.send_ready();
  notify("READY=1");
  return {};
}

Result<void> Running::start_claims(const std::vector<int>& inherited) {
  if (config_.claims.listen == "off") return {};
  const ClaimsPorts ports{
      .store = *lanes_, .waiters = waiters_, .log = log_, .metrics = claims_metrics_, .gateway = *gateway_};
  claims_ = std::make_unique<Claims>(config_.claims, config_.secret, config_.errors_base, ports);
  if (auto started = claims_->start(inherited); !started) return started;
  watchdog_.watch(claims_->loop());
  return {};
}

int Running::wait() {
  Ended ended = Ended::no;
  while (ended == Ended::no) {
    std::array<pollfd, 3> sources = {
        pollfd{.fd = signals_.get(), .events = POLLIN, .revents = 0},
        pollfd{.fd = asked_event_.get(), .events = POLLIN, .revents = 0},
        pollfd{.fd = successor_ ? successor_->descriptor() : -1, .events = POLLIN, .revents = 0}};
    ::poll(sources.data(), sources.size(), poll_milliseconds());
    if (sources[0].revents != 0) ended = on_signal(take_signal(signals_.get()));
    if (ended == Ended::no && sources[1].revents != 0) answer_reloads();
    if (ended == Ended::no && sources[2].revents != 0) ended = on_successor();
    if (ended == Ended::no) ended = go_on_handing_over();
    if (ended == Ended::no && drains_at_ && monotonic_now() >= *drains_at_) ended = drain_now();
    if (ended == Ended::no) do_regular_work();
  }
  return join();
}

int Running::poll_milliseconds() const {
  const auto milliseconds = [](std::chrono::nanoseconds time) {
    return static_cast<int>(std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(time).count()));
  };
  int wait = handover_ == Handover::emptying ? store_look_milliseconds : look_round_milliseconds;
  if (watchdog_.look_every() != Duration::zero()) wait = std::min(wait, milliseconds(watchdog_.look_every()));
  if (drains_at_) wait = std::min(wait, milliseconds(*drains_at_ - monotonic_now()));
  return wait;
}

void Running::watch_loops(std::chrono::nanoseconds limit) {
  watchdog_.set_limit(limit);
  for (http::Loop* const loop : gateway_->loops()) watchdog_.watch(*loop);
  if (admin_) watchdog_.watch(admin_->loop());
}

// Regular work that the workers do not do.
void Running::do_regular_work() {
  if (watchdog_.due(monotonic_now())) notify("WATCHDOG=1");
  reopen_store();
  gateway_->reap();
  const std::uint64_t releases = gateway_->idle_releases();
  if (releases - trimmed_at_ < trim_after_releases) return;
  trimmed_at_ = releases;
  ::malloc_trim(0);
}

Running::Ended Running::on_signal(int signal) {
  if (signal == SIGHUP) {
    reload(ReloadKind::real);
    return Ended::no;
  }
  if (signal == SIGUSR1) {
    reopen_access_log();
    return Ended::no;
  }
  if (signal == SIGUSR2) {
    start_successor();
    return Ended::no;
  }
  if (signal != SIGINT && signal != SIGTERM) return Ended::no;
  if (drains_at_) std::_Exit(1);  // a second signal ends the process at once
  // The successor may have just reported that it serves: then do not end it.
  if (successor_ && successor_->speaks() && on_successor() == Ended::yes) return Ended::yes;
  if (successor_) {
    successor_->end();
    successor_.reset();
  }
  notify("STOPPING=1");
  const Handover step = std::exchange(handover_, Handover::none);
  const bool paused = step == Handover::emptying || step == Handover::given;
  if (paused || config_.timeouts.drain_delay == Duration::zero()) return drain_now();
  log_.info("not ready, still serving", {{"delay_ms", config_.timeouts.drain_delay.count()}});
  if (admin_) admin_->set_draining();
  drains_at_ = monotonic_now() + config_.timeouts.drain_delay;
  return Ended::no;
}

Running::Ended Running::drain_now() {
  drain(false);
  return Ended::yes;
}

ReloadAnswer Running::reload(ReloadKind kind) {
  ReloadAnswer answer;
  const bool real = kind == ReloadKind::real;
  if (real) {
    notify(fmt::format("RELOADING=1\nMONOTONIC_USEC={}",
                       std::chrono::duration_cast<std::chrono::microseconds>(monotonic_now()).count()));
  }
  ConfigErrors warnings;
  auto config = renewal_.reread
                    ? renewal_.reread(warnings)
                    : std::unexpected(ConfigErrors{{"", 0, 0, "this process has no configuration to read"}});
  for (const ConfigError& warning : warnings) answer.warnings.push_back(to_string(without_hidden(warning)));
  if (!config) {
    for (const ConfigError& error : config.error()) answer.errors.push_back(to_string(without_hidden(error)));
  } else {
    for (const std::string& name : needs_restart(config_, *config)) {
      answer.errors.push_back(fmt::format("{}: changed, which needs a restart", name));
    }
    for (std::string& line : forgotten_keys(config_, *config)) answer.warnings.push_back(without_hidden(line));
  }
  if (!real) return answer;
  if (answer.errors.empty()) {
    if (const auto opened = open_access_log(*config); !opened)
      answer.errors.push_back(without_hidden(opened.error().detail));
  }
  if (answer.errors.empty()) {
    if (const auto reloaded = gateway_->reload(serving_of(*config, descriptors_, log_)); !reloaded) {
      answer.errors.push_back(without_hidden(reloaded.error().detail));
    }
  }
  for (const std::string& error : answer.errors) log_.error("reload refused", {{"error", error}});
  if (answer.errors.empty()) {
    for (const std::string& warning : answer.warnings) log_.warn("reloaded with a warning", {{"warning", warning}});
    config_ = *std::move(config);
    log_.set_level(config_.log.level);
    log_.info("reloaded");
  }
  notify("READY=1");
  return answer;
}

void Running::ask(ReloadRequest& request) {
  const std::scoped_lock lock(asking_);
  if (ending_) {
    refuse(request);
    return;
  }
  asked_.push_back(&request);
  ::eventfd_write(asked_event_.get(), 1);
}

void Running::answer_reloads() {
  eventfd_t count = 0;
  ::eventfd_read(asked_event_.get(), &count);
  std::vector<ReloadRequest*> asked;
  {
    const std::scoped_lock lock(asking_);
    asked.swap(asked_);
  }
  for (ReloadRequest* request : asked) {
    request->answer = reload(request->kind);
    request->home.post(*request);
  }
}

// Refuses pending and later reloads: their callers would wait for this thread, which is about to wait for theirs.
void Running::end_reloads() {
  const std::scoped_lock lock(asking_);
  ending_ = true;
  for (ReloadRequest* request : asked_) refuse(*request);
  asked_.clear();
}

void Running::drain(bool successor) {
  // If a service manager holds the sockets, another process will accept the connections that wait in them.
  const bool sockets_kept = successor || renewal_.origin.kept == SocketsKept::yes;
  log_.info("draining", {{"limit_ms", config_.timeouts.drain.count()}, {"successor", successor}});
  end_reloads();
  // A second signal ends the process at once. With a successor, count one more: this is the first signal to this
  // process, and a service manager that stops both processes signals both.
  std::thread([left = successor_ ? 2 : 1]() mutable {
    const sigset_t set = signals_of({SIGINT, SIGTERM});
    int signal = 0;
    while (left > 0) left -= ::sigwait(&set, &signal) == 0 ? 1 : 0;
    std::_Exit(1);
  }).detach();
  if (sockets_kept && admin_) admin_->hand_over();
  if (sockets_kept && claims_) claims_->hand_over();
  if (successor) {
    // The successor now serves the admin interface.
    admin_.reset();
    keys_.reset();
    if (claims_) claims_->begin_stop();
  } else if (admin_) {
    admin_->set_draining();
  }
  gateway_->drain({.limit = config_.timeouts.drain,
                   .idle_grace = sockets_kept ? std::min(idle_grace, config_.timeouts.drain / 2) : Duration::zero(),
                   .unread_grace = config_.timeouts.drain / 2,
                   .successor = sockets_kept});
}

int Running::join() {
  const Gateway::Ended ended = gateway_->join();
  // Stop the claims API last, so that owners can renew their claims as long as possible.
  if (claims_) claims_->stop();
  access_.stop(access_patience);
  if (ended == Gateway::Ended::cut_off) {
    // Exit without cleaning up: interrupted requests still hold memory, and their claims become unknown.
    log_.warn("stopped with running requests; their outcomes are unknown");
    std::_Exit(0);
  }
  lanes_->stop();
  log_.info("stopped");
  return 0;
}

}  // namespace once::cli
