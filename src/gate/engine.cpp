#include "gate/engine.hpp"

#include <unistd.h>

#include <utility>

#include <fmt/format.h>

#include "admin/exposition.hpp"
#include "admin/metrics_page.hpp"
#include "admin/store_metrics.hpp"
#include "config/prepare.hpp"
#include "config/serving.hpp"
#include "gate/core.hpp"
#include "gate/environment.hpp"

namespace once::gate {

namespace {

// How often a stop checks for claims that are still ended in the background.
constexpr Duration settle_pause = std::chrono::milliseconds(10);

int descriptor_of(const LogTarget& target, const std::optional<LogPipe>& pipe) {
  return target.kind == LogTarget::Kind::sink && pipe ? pipe->writer() : STDERR_FILENO;
}

LogLevel level_of(const LogTarget& target, LogLevel level) {
  return target.kind == LogTarget::Kind::off ? LogLevel::off : level;
}

LogFormat format_of(const LogTarget& target, LogFormat format) {
  return target.kind == LogTarget::Kind::sink ? LogFormat::json : format;
}

std::vector<RouteMetrics*> route_counts(const ServingSettings& serving, Metrics& metrics) {
  std::vector<RouteMetrics*> counts;
  for (const Route& route : serving.routes) counts.push_back(&metrics.routes.of(route_label(route)));
  counts.push_back(&metrics.routes.of(RouteTable::none));
  return counts;
}

// Uses its own connections, because the store's sweeper may be running now.
std::expected<std::uint64_t, std::string> sweep_all(const Config& config, const Log& log, const std::stop_token& stop) {
  const StoreType* const type = find_store(config.store);
  if (type == nullptr || type->schema == nullptr) return 0;
  ServerSettings settings = config.server;
  settings.connections = 1;
  const auto store = type->connect(config.store, settings, log);
  if (!store) return std::unexpected(store.error().detail);
  std::uint64_t removed = 0;
  More more = More::yes;
  while (more == More::yes && !stop.stop_requested()) {
    const auto swept = (*store)->sweep(settings.sweep_batch);
    if (!swept) return std::unexpected(swept.error().detail);
    removed += swept->removed;
    more = swept->more;
  }
  return removed;
}

}  // namespace

ProcessPorts::ProcessPorts(const Config& config, LogTarget target)
    : pipe(target.kind == LogTarget::Kind::sink ? std::make_optional<LogPipe>(target.sink) : std::nullopt),
      log(clock, descriptor_of(target, pipe), level_of(target, config.log.level),
          format_of(target, config.log.format)) {}

std::expected<std::unique_ptr<Engine>, OpenError> Engine::open(const Options& options, LogTarget log) {
  auto settings = read_settings(options, process_environment());
  if (!settings) {
    return std::unexpected(OpenError{.kind = OpenError::Kind::settings, .detail = std::move(settings.error())});
  }
  const Config& config = settings->config;
  auto process = std::make_unique<ProcessPorts>(config, std::move(log));
  auto store = open_store(config.store, store_settings(config), {.clock = process->clock, .log = process->log});
  if (!store) {
    const auto kind = store.error().source == ErrorSource::config ? OpenError::Kind::settings : OpenError::Kind::store;
    return std::unexpected(OpenError{.kind = kind, .detail = std::move(store.error().detail)});
  }
  return std::make_unique<Engine>(*std::move(settings), std::move(process), *std::move(store));
}

Engine::Engine(GateSettings settings, std::unique_ptr<ProcessPorts> process, OpenedStore store)
    : settings_(std::move(settings)),
      process_(std::move(process)),
      faults_(process_->log),
      store_(std::move(store)),
      lanes_(store_.store(), LaneLimits{.lanes = store_.lanes}),
      serving_(serving_settings(settings_.config)),
      routes_(serving_.routes, serving_.upstreams),
      ids_(settings_.config.secret),
      operations_(settings_.config.secret),
      counts_(route_counts(serving_, metrics_)),
      ports_{.store = lanes_,
             .waiters = waiters_,
             .executions = executions_,
             .home = loop_,
             .clock = process_->clock,
             .random = random_,
             .metrics = metrics_,
             .log = process_->log,
             .errors_base = settings_.config.errors_base},
      claimant_(ports_) {
  if (serving_.tokens.verifier) tokens_.emplace(serving_.tokens.verifier, metrics_);
  quotas_->anonymous = ids_.tenant({});
  follow_store(store_.store(), quotas_, process_->clock);
  store_.store().notify_of_ends([this](const OperationId& id) { waiters_.notify(id); });
  loop_.listen(faults_);
  retirement_.engine = this;
  retirement_.run = [](Work& work) {
    auto& retirement = static_cast<Retirement&>(work);
    retirement.posted = false;
    retirement.engine->retired_.clear();
    retirement.engine->complete_stop();
  };
  settle_timer_.engine = this;
  settle_timer_.fire = [](Timer& timer) { static_cast<SettleTimer&>(timer).engine->complete_stop(); };
}

void Engine::warn_of_settings() {
  if (std::exchange(warned_, true)) return;
  for (const std::string& warning : settings_.warnings)
    process_->log.warn("configuration warning", {{"detail", warning}});
}

// The loop no longer runs. End the threads that could still report results first, then destroy the calls, wherever they
// wait.
Engine::~Engine() {
  offload_.stop();
  lanes_.stop();
  if (process_->pipe) {
    process_->pipe->read_all();
    process_->pipe->stop_listening(loop_);
  }
  calls_.clear();
  retired_.clear();
}

std::shared_ptr<Core> Engine::core() const {
  return core_->shared_from_this();
}

void Engine::run(Core& core) {
  core_ = &core;
  if (process_->pipe) process_->pipe->listen(loop_);
  loop_.run();
}

void Engine::start(std::unique_ptr<Call> call) {
  Call& started = *call;
  Running& running = calls_[&started];
  running = {.call = std::move(call), .task = run_owned(run_call(started))};
  running.task.start();
}

Task<void> Engine::run_call(Call& call) {
  co_await call.run();
  retire(call);
}

// Its coroutine is still on the stack, so destroy it in a later round.
void Engine::retire(const Call& call) {
  retired_.push_back(std::move(calls_.extract(&call).mapped()));
  if (!std::exchange(retirement_.posted, true)) loop_.post(retirement_);
}

void Engine::cancel(std::uint64_t tag) {
  for (const auto& [call, running] : calls_) running.call->cancel(tag);
}

void Engine::stop(Completion<StopResult> then) {
  stop_waiters_.push_back(std::move(then));
  stopping_ = true;
  for (const auto& [call, running] : calls_) running.call->end_wait();
  complete_stop();
}

void Engine::complete_stop() {
  if (!stopping_ || !calls_.empty()) return;
  if (metrics_.unsettled.value() > 0) {
    loop_.arm(settle_timer_, settle_pause);
    return;
  }
  for (Completion<StopResult>& done : std::exchange(stop_waiters_, {})) done.complete(std::monostate());
}

void Engine::sweep(Completion<SweepResult> then) {
  offload_.run([this, result = std::move(then)](const std::stop_token& stop) mutable {
    result.complete(sweep_all(settings_.config, process_->log, stop));
  });
}

void Engine::note_ended(bool dropped) {
  held_.subtract();
  if (!dropped) return;
  dropped_.add();
  process_->log.warn("a claim was dropped without an outcome");
}

void Engine::count_work(const guard::OutcomeFacts& outcome) {
  if (outcome.succeeded()) {
    work_done_.add();
  } else if (outcome.reason == guard::Reason::work_failed) {
    work_failed_.add();
  } else if (outcome.reason == guard::Reason::lost) {
    work_lost_.add();
  }
}

std::string Engine::metrics_text() const {
  Exposition out;
  const std::vector<const Metrics*> all = {&metrics_};
  write_request_metrics(out, route_totals(all), all);
  out.single("once_gate_claims", "gauge", "Claims that handlers and work hold now.", held_.value());
  out.single("once_gate_claims_dropped_total", "counter", "Claims dropped by their holder without an outcome.",
             dropped_.value());
  out.family("once_gate_work_total", "counter", "Ends of claimed work, by result.");
  out.sample("result=\"succeeded\"", work_done_.value());
  out.sample("result=\"failed\"", work_failed_.value());
  out.sample("result=\"lost\"", work_lost_.value());
  write_store_metrics(out, lanes_);
  return out.take();
}

}  // namespace once::gate
