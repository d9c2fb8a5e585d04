// The working parts of a gate, on its loop's thread: store, lanes, routes, limits, counters, and the calls in progress.
// The gateway has the same parts, one set per worker.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include <once/gate.hpp>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "core/operation.hpp"
#include "gate/call.hpp"
#include "gate/completion.hpp"
#include "gate/log_pipe.hpp"
#include "gate/offload_queue.hpp"
#include "gate/running_task.hpp"
#include "gate/settings.hpp"
#include "gateway/exchange/exchange_claimant.hpp"
#include "gateway/exchange/exchange_ports.hpp"
#include "gateway/identity/routes.hpp"
#include "gateway/identity/token_cache.hpp"
#include "gateway/limits/caller_limits.hpp"
#include "gateway/limits/usage.hpp"
#include "gateway/metrics.hpp"
#include "gateway/settings.hpp"
#include "guard/operation.hpp"
#include "http/fault_log.hpp"
#include "http/loop.hpp"
#include "store/catalog/catalog.hpp"
#include "store/executions.hpp"
#include "store/lane.hpp"
#include "store/waiters.hpp"

namespace once::gate {

class Core;

using StopResult = std::variant<Cancelled, std::monostate>;
using SweepResult = std::variant<Cancelled, std::expected<std::uint64_t, std::string>>;

// Where log lines go.
struct LogTarget {
  enum class Kind : std::uint8_t { standard_error, off, sink };
  Kind kind = Kind::standard_error;
  LogPipe::Sink sink = {};
};

// Clock and log, which all other parts use.
struct ProcessPorts {
  ProcessPorts(const Config& config, LogTarget target);

  SystemClock clock;
  std::optional<LogPipe> pipe;
  Log log;
};

class Engine {
 public:
  // Opens the store, which may block.
  static std::expected<std::unique_ptr<Engine>, OpenError> open(const Options& options, LogTarget log);
  Engine(GateSettings settings, std::unique_ptr<ProcessPorts> process, OpenedStore store);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  // Runs the loop until stop_now(). `core` outlives this.
  void run(Core& core);
  // Thread-safe.
  void stop_now() { loop_.stop(); }

  // On the loop's thread.
  void start(std::unique_ptr<Call> call);
  void cancel(std::uint64_t tag);
  void stop(Completion<StopResult> then);
  void sweep(Completion<SweepResult> then);

  // Thread-safe, while the engine lives.
  std::string metrics_text() const;
  const ServingSettings& serving() const { return serving_; }
  const Routes& routes() const { return routes_; }
  const OperationIds& ids() const { return ids_; }
  const guard::Operations& operations() const { return operations_; }
  const Clock& clock() const { return process_->clock; }
  const Log& log() const { return process_->log; }

  // Used by calls. Warns at the first request, because a program that only claims work need not configure callers and
  // routes.
  void warn_of_settings();
  std::shared_ptr<Core> core() const;
  http::Loop& loop() { return loop_; }
  const ExchangePorts& ports() const { return ports_; }
  Lanes& lanes() { return lanes_; }
  Waiters& waiters() { return waiters_; }
  ExchangeClaimant& claimant() { return claimant_; }
  Random& random() { return random_; }
  TokenCache* tokens() { return tokens_ ? &*tokens_ : nullptr; }
  Usage& usage() { return usage_; }
  QuotaTables& quotas() { return *quotas_; }
  bool evicts() const { return lanes_.store().traits().evicts; }
  Metrics& metrics() { return metrics_; }
  RouteMetrics& counts(const RoutedPolicy& routed) { return *counts_[routed.index]; }
  void note_handed_out() { held_.add(); }
  void note_ended(bool dropped);
  void count_work(const guard::OutcomeFacts& outcome);

 private:
  struct Running {
    std::unique_ptr<Call> call;
    RunningTask task;  // destroyed first, because it uses the call
  };
  struct Retirement : Work {
    Engine* engine = nullptr;
    bool posted = false;
  };
  struct SettleTimer : Timer {
    Engine* engine = nullptr;
  };

  Task<void> run_call(Call& call);
  void retire(const Call& call);
  void complete_stop();

  const GateSettings settings_;
  bool warned_ = false;
  const std::unique_ptr<ProcessPorts> process_;
  http::Loop loop_;
  http::FaultLog faults_;
  Waiters waiters_;  // outlives the store, which notifies them
  OpenedStore store_;
  ThreadLanes lanes_;
  const ServingSettings serving_;
  const Routes routes_;
  const OperationIds ids_;
  const guard::Operations operations_;
  Metrics metrics_;
  std::vector<RouteMetrics*> counts_;  // by route; the last is for requests without one
  std::optional<TokenCache> tokens_;
  Usage usage_;
  const std::shared_ptr<QuotaTables> quotas_ = std::make_shared<QuotaTables>();
  Executions executions_;
  SystemRandom random_;
  const ExchangePorts ports_;
  ExchangeClaimant claimant_;
  Counter held_;     // claims handed out that have not ended
  Counter dropped_;  // claims dropped by their holder without an end
  Counter work_done_;
  Counter work_failed_;
  Counter work_lost_;
  Core* core_ = nullptr;
  OffloadQueue offload_;
  std::unordered_map<const Call*, Running> calls_;
  std::vector<Running> retired_;  // ended; destroyed when their coroutines have returned
  Retirement retirement_;
  SettleTimer settle_timer_;
  bool stopping_ = false;
  std::vector<Completion<StopResult>> stop_waiters_;
};

}  // namespace once::gate
