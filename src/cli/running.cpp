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

#include "config/reload.hpp"
#include "http/activation.hpp"
#include "store/server/store_url.hpp"

namespace once::cli {

namespace {

// A client that keeps its connection busy sends its next request within this, and is told there that it is the last
// one: closed while it idles, the connection could be closed just as the next request goes out.
constexpr Duration idle_grace = std::chrono::seconds(1);
constexpr int store_poll_milliseconds = 10;
constexpr int look_round_milliseconds = 1000;
// What connections give back lies between what others keep, and stays with the process until it is asked for.
constexpr std::uint64_t trim_after_rests = 256;

unsigned thread_count(const Config& config) {
  return config.threads != 0 ? config.threads : std::max(1U, std::thread::hardware_concurrency());
}

http::AddressSet addresses_of(const std::vector<std::string>& networks) {
  http::AddressSet set;
  for (const std::string& network : networks) set.add(network);  // config has checked them
  return set;
}

// So that an address whose callers nobody has checked cannot fill the store: others have a quarter of it.
Limits limits_by_store(const Config& config) {
  Limits limits = config.limits;
  limits.address.tracked = limits.caller.tracked;
  if (limits.address.stored_bytes != 0) return limits;
  if (config.store.starts_with("journal:")) limits.address.stored_bytes = config.journal.max_disk / 4 * 3;
  if (config.store.starts_with("memory:")) limits.address.stored_bytes = config.memory.max_bytes / 4 * 3;
  return limits;
}

ServingSettings serving_of(const Config& config) {
  return {.upstreams = config.upstreams,
          .routes = config.routes,
          .limits = limits_by_store(config),
          .timeouts = config.timeouts,
          .pool = config.pool,
          .tokens = {.header = config.jwt.header, .verifier = config.jwt.verifier},
          .trusted_proxies = addresses_of(config.trusted_proxies),
          .hosts = HostNames(config.same_hosts),
          .upgrades = config.upgrades,
          .tls = config.tls,
          .upstream_tls = config.upstream_tls};
}

FixedLimits limits_of(const Config& config) {
  const bool memory = config.store.starts_with("memory:");
  const bool journal = config.store.starts_with("journal:");
  return {.store_bytes = memory ? config.memory.max_bytes : (journal ? config.journal.max_memory : 0),
          .journal_disk_bytes = journal ? config.journal.max_disk : 0,
          .claims_connections = config.claims.max_connections,
          .claims_waiting = config.claims.max_waiting};
}

// For people: a journal by its whole path, wherever the process was started.
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
  return signals_of({SIGINT, SIGTERM, SIGHUP, SIGUSR2});
}

// One that is there already.
int take_signal(int descriptor) {
  signalfd_siginfo info{};
  return ::read(descriptor, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

void refuse(ReloadRequest& request) {
  request.answer.errors = {"this process is ending"};
  request.home.post(request);
}

bool shared(const OpenedStore& store) {
  return store.store().traits().shared == Shared::yes;
}

}  // namespace

void block_signals() {
  const sigset_t set = awaited_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);  // a reader of our log that goes away must not end us
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is a full disk: the write says so
}

Running::Running(const Config& config, Renewal renewal)
    : config_(config),
      renewal_(std::move(renewal)),
      log_(clock_, STDERR_FILENO, config.log.level, config.log.format),
      access_log_(config.log.access ? std::make_unique<Log>(clock_, STDOUT_FILENO, LogLevel::info, config.log.format)
                                    : nullptr),
      asked_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

// Sockets that came with the process. One without a name that we know is for clients, without TLS.
std::vector<int> Running::inherited(std::string_view name) const {
  std::vector<int> found;
  for (const http::InheritedSocket& socket : renewal_.origin.sockets) {
    const bool ours = socket.name == "admin" || socket.name == "claims" || socket.name == "tls";
    if (ours ? socket.name == name : name == "http") found.push_back(socket.fd);
  }
  return found;
}

void Running::notify(std::string_view state) const {
  http::notify_service_manager(renewal_.origin.notify_socket, state);
}

Result<void> Running::start() {
  renewal_.origin.predecessor.say_checked();
  auto store = OpenedStore::open(config_, clock_, log_);
  if (!store) return std::unexpected(store.error());
  store_ = std::move(*store);
  store_->store().tell_ends([this](const OperationId& id) { waiters_.notify(id); });
  lanes_.emplace(store_->store(), LaneLimits{.lanes = store_->lanes()});
  gateway_.emplace(
      GatewaySettings{.listen = config_.listen,
                      .inherited = inherited("http"),
                      .inherited_tls = inherited("tls"),
                      .threads = thread_count(config_),
                      .secret = config_.secret,
                      .errors_base = config_.errors_base,
                      .serving = serving_of(config_)},
      GatewayPorts{
          .store = *lanes_, .waiters = waiters_, .clock = clock_, .log = log_, .access_log = access_log_.get()});
  if (auto started = gateway_->start(); !started) return started;
  if (config_.claims.listen != "off") {
    const ClaimsPorts ports{
        .store = *lanes_, .waiters = waiters_, .log = log_, .metrics = claims_metrics_, .faults = gateway_->faults()};
    claims_ = std::make_unique<Claims>(config_.claims, config_.secret, config_.errors_base, ports);
    if (auto started = claims_->start(inherited("claims")); !started) return started;
  }
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
                                                  .memory = store_->memory(),
                                                  .journal = store_->journal(),
                                                  .server = store_->server(),
                                                  .claims = claims_metrics_,
                                                  .reload = *this,
                                                  .keys = *keys_,
                                                  .clock = clock_,
                                                  .log = log_,
                                                  .limits = limits_of(config_),
                                                  .store_kind = kind_of(config_.store),
                                                  .version = ONCE_VERSION});
    if (auto started = admin_->start(inherited("admin")); !started) return started;
  }
  log_.info("listening", {{"address", address()},
                          {"tls", tls_address()},
                          {"admin", admin_address()},
                          {"claims", claims_address()},
                          {"store", store_text(config_)}});
  renewal_.origin.predecessor.say_ready();
  notify("READY=1");
  return {};
}

int Running::wait() {
  const sigset_t set = awaited_signals();
  const Descriptor signals(::signalfd(-1, &set, SFD_CLOEXEC));
  Ended ended = Ended::no;
  while (ended == Ended::no) {
    std::array<pollfd, 3> sources = {
        pollfd{.fd = signals.get(), .events = POLLIN, .revents = 0},
        pollfd{.fd = asked_event_.get(), .events = POLLIN, .revents = 0},
        pollfd{.fd = successor_ ? successor_->descriptor() : -1, .events = POLLIN, .revents = 0}};
    ::poll(sources.data(), sources.size(), look_round_milliseconds);
    if (sources[0].revents != 0) ended = on_signal(take_signal(signals.get()));
    if (ended == Ended::no && sources[1].revents != 0) answer_reloads();
    if (ended == Ended::no && sources[2].revents != 0) ended = on_successor();
    if (ended == Ended::no) look_round();
  }
  return finish();
}

// What has to be done now and then, and by no worker.
void Running::look_round() {
  gateway_->reap();
  const std::uint64_t rested = gateway_->rested();
  if (rested - trimmed_at_ < trim_after_rests) return;
  trimmed_at_ = rested;
  ::malloc_trim(0);
}

Running::Ended Running::on_signal(int signal) {
  if (signal == SIGHUP) {
    reload(ReloadKind::real);
    return Ended::no;
  }
  if (signal == SIGUSR2) {
    start_successor();
    return Ended::no;
  }
  if (signal != SIGINT && signal != SIGTERM) return Ended::no;
  // With sockets from a service manager, somebody else will serve what waits in them.
  drain(renewal_.origin.kept == SocketsKept::yes);
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
  for (const ConfigError& warning : warnings) answer.warnings.push_back(to_string(warning));
  if (!config) {
    for (const ConfigError& error : config.error()) answer.errors.push_back(to_string(error));
  } else {
    for (const std::string& name : needs_restart(config_, *config)) {
      answer.errors.push_back(fmt::format("{}: changed, and that needs a restart", name));
    }
    for (std::string& line : forgotten_keys(config_, *config)) answer.warnings.push_back(std::move(line));
  }
  if (!real) return answer;
  if (answer.errors.empty()) {
    if (const auto reloaded = gateway_->reload(serving_of(*config)); !reloaded) {
      answer.errors.push_back(reloaded.error().detail);
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

// Nobody will be waited for that waits for this thread.
void Running::end_reloads() {
  const std::scoped_lock lock(asking_);
  ending_ = true;
  for (ReloadRequest* request : asked_) refuse(*request);
  asked_.clear();
}

void Running::start_successor() {
  if (renewal_.command.empty() || successor_) {
    log_.warn("SIGUSR2 ignored", {{"why", successor_ ? "a successor is starting" : "this process cannot be replaced"}});
    return;
  }
  std::vector<http::InheritedSocket> sockets;
  for (const int fd : gateway_->listening()) sockets.push_back({.name = "http", .fd = fd});
  for (const int fd : gateway_->tls_listening()) sockets.push_back({.name = "tls", .fd = fd});
  if (claims_) sockets.push_back({.name = "claims", .fd = claims_->listening()});
  if (admin_) sockets.push_back({.name = "admin", .fd = admin_->listening()});
  auto started = Successor::start(renewal_.command, sockets, renewal_.origin.kept);
  if (!started) {
    log_.error("successor not started", {{"error", started.error().detail}});
    return;
  }
  successor_ = std::move(*started);
  log_.info("successor started", {{"pid", successor_->pid()}});
}

Running::Ended Running::on_successor() {
  switch (successor_->receive()) {
    case Message::checked:
      if (shared(*store_)) {
        successor_->say_yours();
        return Ended::no;
      }
      notify(fmt::format("MAINPID={}", successor_->pid()));
      give_up_store();
      return Ended::yes;
    case Message::ready:
      notify(fmt::format("MAINPID={}", successor_->pid()));
      drain(true);
      return Ended::yes;
    case Message::yours:
    case Message::none: break;
  }
  successor_->reap();
  successor_.reset();
  log_.error("successor failed: this process serves on");
  return Ended::no;
}

// For a successor that cannot have it while it is open here. Streams that need no store go on.
void Running::give_up_store() {
  drain(true);
  const auto until = monotonic_now() + config_.timeouts.drain;
  while (gateway_->needs_store() && monotonic_now() < until) ::poll(nullptr, 0, store_poll_milliseconds);
  // Requests that are still at work keep it, and are cut off with this process.
  if (gateway_->needs_store()) return;
  lanes_->stop();
  store_.reset();
  successor_->say_yours();
}

void Running::drain(bool successor) {
  log_.info("draining", {{"limit_ms", config_.timeouts.drain.count()}, {"successor", successor}});
  if (!successor) notify("STOPPING=1");
  end_reloads();
  // A second signal means now. With a successor there was none yet, and a service manager that stops both signals both.
  std::thread([left = successor_ ? 2 : 1]() mutable {
    const sigset_t set = signals_of({SIGINT, SIGTERM});
    int signal = 0;
    while (left > 0) left -= ::sigwait(&set, &signal) == 0 ? 1 : 0;
    std::_Exit(1);
  }).detach();
  if (successor) {
    // Health checks and workers are the successor's now.
    if (admin_) admin_->hand_over();
    if (claims_) claims_->hand_over();
    admin_.reset();
    keys_.reset();
  } else if (admin_) {
    admin_->set_draining();
  }
  gateway_->drain({.limit = config_.timeouts.drain,
                   .idle_grace = successor ? std::min(idle_grace, config_.timeouts.drain / 2) : Duration::zero(),
                   .successor = successor});
  if (claims_) claims_->stop();
}

int Running::finish() {
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
