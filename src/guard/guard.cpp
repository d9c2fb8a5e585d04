// Implements the public header, and opens guards.
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/assert.hpp"
#include "base/signals.hpp"
#include "core/outcome.hpp"
#include "guard/caught.hpp"
#include "guard/engine.hpp"

namespace once::guard {

namespace {

constexpr std::size_t shortest_secret = 16;
constexpr std::string_view development_secret = "once: a secret that everybody knows";
constexpr std::size_t most_connections = 1024;  // each has a thread
// Callers that would retry more often should wait instead.
constexpr Duration longest_retry_after = std::chrono::seconds(5);

// Empty: no mistake.
std::string mistake_in(const Options& options) {
  if (options.secret.empty() && options.environment == Environment::production) {
    return "no secret: in production a guard needs one of at least 16 random bytes, the same in every process";
  }
  if (!options.secret.empty() && options.secret.size() < shortest_secret) return "the secret is shorter than 16 bytes";
  for (const std::string& each : options.encryption_secrets) {
    if (each.size() < shortest_secret) return "an encryption secret is shorter than 16 bytes";
  }
  if (options.connections == 0 || options.connections > most_connections) return "connections must be from 1 to 1024";
  return {};
}

std::unique_ptr<Log> log_for(const Options& options, const Clock& clock) {
  const LogLevel level = options.logging == Logging::off ? LogLevel::off : LogLevel::warn;
  return std::make_unique<Log>(clock, STDERR_FILENO, level, LogFormat::automatic);
}

// A clock given by the caller.
class CallerClock final : public Clock {
 public:
  explicit CallerClock(std::function<Time()> now) : now_(std::move(now)) {}
  Time now() const override { return now_(); }

 private:
  const std::function<Time()> now_;
};

}  // namespace

Guard Engine::made(std::unique_ptr<Engine> engine, std::shared_ptr<const void> kept_alive) {
  engine->kept_alive_ = std::move(kept_alive);
  return Guard(std::shared_ptr<Engine>(engine.release(), &Engine::destroy));
}

Guard Engine::open_on(const Options& options, const Clock& clock, std::unique_ptr<Store> store,
                      std::shared_ptr<const void> kept_alive) {
  auto engine =
      std::make_unique<Engine>(options, options.secret, clock, log_for(options, clock), Backing::of(std::move(store)));
  return made(std::move(engine), std::move(kept_alive));
}

Engine::Opened Engine::open(const Options& options, const Clock& clock, std::shared_ptr<const void> kept_alive) {
  if (std::string mistake = mistake_in(options); !mistake.empty()) {
    return std::unexpected(OpenError{std::move(mistake)});
  }
  auto log = log_for(options, clock);
  const SignalsBlocked quiet;
  auto backing = Backing::open(options, clock, *log);
  if (!backing) return std::unexpected(std::move(backing.error()));
  const std::string_view secret = options.secret.empty() ? development_secret : std::string_view(options.secret);
  auto engine = std::make_unique<Engine>(options, secret, clock, std::move(log), std::move(*backing));
  return made(std::move(engine), std::move(kept_alive));
}

std::expected<Guard, OpenError> Guard::open(const Options& options) {
  static const SystemClock system_clock;
  Engine::Opened opened = std::unexpected(OpenError{});
  Thrown thrown;
  const auto open_it = [&] {
    const auto caller_clock = options.now ? std::make_shared<CallerClock>(options.now) : nullptr;
    opened =
        Engine::open(options, caller_clock ? static_cast<const Clock&>(*caller_clock) : system_clock, caller_clock);
  };
  if (caught(open_it, thrown) == Ended::well) return opened;
  // No memory or threads, or an absurd limit.
  return std::unexpected(OpenError{"the guard could not be opened: " + thrown.what});
}

Guard::Guard(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}
Guard::~Guard() = default;
Guard::Guard(Guard&& other) noexcept = default;
Guard& Guard::operator=(Guard&& other) noexcept = default;

void Guard::run_work(const Request& request, const detail::Work& work, OutcomeFacts& outcome) {
  Thrown thrown;
  if (caught([&] { engine_->run(request, work, outcome); }, thrown) == Ended::threw) set_internal(thrown, outcome);
}

Claimed Guard::claim(const Request& request, const std::stop_token& stop) {
  Claimed claimed;
  Thrown thrown;
  if (caught([&] { claimed = engine_->claim(request, stop); }, thrown) == Ended::threw)
    set_internal(thrown, claimed.outcome);
  return claimed;
}

std::optional<Outcome<std::string>> Guard::look(const Request& request) {
  std::optional<Outcome<std::string>> outcome;
  Thrown thrown;
  if (caught([&] { outcome = engine_->look(request); }, thrown) == Ended::threw) {
    set_internal(thrown, outcome.emplace());
  }
  return outcome;
}

std::expected<std::chrono::nanoseconds, std::string> Guard::ping() {
  return engine_->ping();
}

Counts Guard::counts() const {
  return engine_->counts();
}

bool Running::lost() const {
  return static_cast<const Lease*>(owner_)->lost.load(std::memory_order_relaxed);
}

std::string Running::handle() const {
  const auto& lease = *static_cast<const Lease*>(owner_);
  return handle_of(lease.id, lease.nonce);
}

bool cancelled(const std::stop_token& stop, OutcomeFacts& outcome) {
  if (!stop.stop_requested()) return false;
  outcome.status = Status::failed;
  outcome.reason = Reason::cancelled;
  return true;
}

void set_internal(const Thrown& thrown, OutcomeFacts& outcome) {
  outcome.status = Status::failed;
  outcome.reason = Reason::internal;
  outcome.exception = thrown.exception;
}

Duration retry_after(Time until, Time now) {
  return std::max(std::min(until, now + longest_retry_after) - now, Duration(1));
}

void set_store_failed(const Op& op, OutcomeFacts& outcome) {
  outcome.status = Status::failed;
  outcome.reason = op.fault == StoreFault::full ? Reason::store_full : Reason::store_unavailable;
  outcome.detail = op.error;
}

void set_recorded(const Record& record, Source source, const detail::Work& work, OutcomeFacts& outcome) {
  outcome.source = source;
  outcome.attempt = static_cast<std::uint32_t>(record.attempt);
  outcome.fence = static_cast<std::uint64_t>(record.fence);
  const auto response = record.outcome ? decode(*record.outcome) : std::nullopt;
  bool read = false;
  Thrown thrown;
  const auto read_it = [&] { read = work.read(work.state, response->body); };
  if (response && caught(read_it, thrown) == Ended::well && read) {
    outcome.status = Status::succeeded;
    outcome.reason = Reason::none;
    outcome.code = response->status;
    return;
  }
  outcome.status = Status::failed;
  outcome.reason = Reason::unreadable;
  outcome.exception = std::move(thrown.exception);
}

void set_verdict(const Op& claim, const detail::Work& work, OutcomeFacts& outcome) {
  if (claim.status != OpStatus::done) return set_store_failed(claim, outcome);
  const Record& record = *claim.record;
  outcome.attempt = static_cast<std::uint32_t>(record.attempt);
  const auto in_progress = [&](Reason reason, Duration after) {
    outcome.status = Status::in_progress;
    outcome.reason = reason;
    outcome.retry_after = after;
  };
  switch (claim.verdict) {
    case Verdict::execute: ONCE_ASSERT(false);
    case Verdict::replay: return set_recorded(record, Source::cached, work, outcome);
    case Verdict::in_flight: return in_progress(Reason::at_work, retry_after(record.lease_until, claim.now));
    case Verdict::too_early: {
      const Time until = saturating_add(record.started_at, claim.terms.takeover_after);
      return in_progress(Reason::gone, std::max(until - claim.now, Duration(1)));
    }
    case Verdict::not_kept: outcome.reason = Reason::not_kept; return;
    case Verdict::mismatch: outcome.reason = Reason::mismatch; return;
    case Verdict::held: outcome.reason = Reason::unknown; return;
    case Verdict::gone: outcome.reason = Reason::expired; return;
  }
}

}  // namespace once::guard
