// What the public header declares, and how a guard is opened.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "core/outcome.hpp"
#include "guard/caught.hpp"
#include "guard/engine.hpp"

namespace once::guard {

namespace {

constexpr std::size_t shortest_secret = 16;
constexpr std::string_view development_secret = "once: a secret that everybody knows";
// Who comes back more often than this should wait instead.
constexpr Duration longest_retry_after = std::chrono::seconds(5);

// Empty: nothing is wrong.
std::string mistake_in(const Options& options) {
  if (options.secret.empty() && options.environment == Environment::production) {
    return "no secret: in production a guard needs one of at least 16 random bytes, the same in every process";
  }
  if (!options.secret.empty() && options.secret.size() < shortest_secret) return "the secret is shorter than 16 bytes";
  for (const std::string& each : options.encryption_secrets) {
    if (each.size() < shortest_secret) return "an encryption secret is shorter than 16 bytes";
  }
  if (options.connections == 0) return "connections must be at least 1";
  return {};
}

}  // namespace

Engine::Opened Engine::open(const Options& options, const Clock& clock) {
  if (std::string mistake = mistake_in(options); !mistake.empty()) {
    return std::unexpected(OpenError{std::move(mistake)});
  }
  const LogLevel level = options.logging == Logging::off ? LogLevel::off : LogLevel::warn;
  auto log = std::make_unique<Log>(clock, STDERR_FILENO, level, LogFormat::automatic);
  auto backing = Backing::open(options, clock, *log);
  if (!backing) return std::unexpected(std::move(backing.error()));
  const std::string_view secret = options.secret.empty() ? development_secret : std::string_view(options.secret);
  return Guard(std::make_unique<Engine>(options, secret, clock, std::move(log), std::move(*backing)));
}

std::expected<Guard, OpenError> Guard::open(const Options& options) {
  static const SystemClock clock;
  return Engine::open(options, clock);
}

Guard::Guard(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
Guard::~Guard() = default;
Guard::Guard(Guard&& other) noexcept = default;
Guard& Guard::operator=(Guard&& other) noexcept = default;

void Guard::run_work(const Request& request, const detail::Work& work, OutcomeFacts& outcome) noexcept {
  std::string what;
  if (caught([&] { engine_->run(request, work, outcome); }, what) == Ended::well) return;
  outcome.status = Status::failed;
  outcome.reason = Reason::internal;
}

Claimed Guard::claim(const Request& request) {
  return engine_->claim(request);
}

std::optional<Outcome<std::string>> Guard::look(const Request& request) {
  return engine_->look(request);
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

void tell_store_failed(const Op& op, OutcomeFacts& outcome) {
  outcome.status = Status::failed;
  outcome.reason = op.fault == StoreFault::full ? Reason::store_full : Reason::store_unavailable;
  outcome.detail = op.error;
}

void tell_recorded(const Record& record, Source source, const detail::Work& work, OutcomeFacts& outcome) {
  outcome.source = source;
  outcome.attempt = static_cast<std::uint32_t>(record.attempt);
  outcome.fence = static_cast<std::uint64_t>(record.fence);
  const auto response = record.outcome ? decode(*record.outcome) : std::nullopt;
  bool read = false;
  std::string what;
  const auto read_it = [&] { read = work.read(work.state, response->body); };
  if (response && caught(read_it, what) == Ended::well && read) {
    outcome.status = Status::succeeded;
    outcome.reason = Reason::none;
    outcome.code = response->status;
    return;
  }
  outcome.status = Status::failed;
  outcome.reason = Reason::unreadable;
}

void tell_verdict(const Op& claim, const detail::Work& work, OutcomeFacts& outcome) {
  if (claim.status != OpStatus::done) return tell_store_failed(claim, outcome);
  const Record& record = *claim.record;
  outcome.attempt = static_cast<std::uint32_t>(record.attempt);
  const auto in_progress = [&](Reason reason, Time until) {
    outcome.status = Status::in_progress;
    outcome.reason = reason;
    outcome.retry_after = std::max(until - claim.now, Duration(1));
  };
  switch (claim.verdict) {
    case Verdict::execute: ONCE_ASSERT(false);
    case Verdict::replay: return tell_recorded(record, Source::cached, work, outcome);
    case Verdict::in_flight:
      return in_progress(Reason::at_work, std::min(record.lease_until, claim.now + longest_retry_after));
    case Verdict::too_early:
      return in_progress(Reason::gone, saturating_add(record.started_at, claim.terms.takeover_after));
    case Verdict::not_kept: outcome.reason = Reason::not_kept; return;
    case Verdict::mismatch: outcome.reason = Reason::mismatch; return;
    case Verdict::held: outcome.reason = Reason::unknown; return;
    case Verdict::gone: outcome.reason = Reason::expired; return;
  }
}

}  // namespace once::guard
