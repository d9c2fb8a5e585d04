// Implements the public header: blocking calls and callbacks around the core.
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <utility>

#include <once/gate.hpp>

#include "gate/core.hpp"
#include "gate/per_process.hpp"
#include "guard/caught.hpp"

namespace once::gate {

namespace {

constexpr std::chrono::seconds end_limit{5};
constexpr int unavailable_status = 503;
constexpr int mistake_status = 500;

// The wait for the result of one call.
template <class T>
class Awaited {
 public:
  Completion<T> completion() {
    return Completion<T>([state = state_](T result) {
      const std::scoped_lock lock(state->mutex);
      state->result.emplace(std::move(result));
      state->changed.notify_one();
    });
  }
  T wait() {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [this] { return state_->result.has_value(); });
    return *std::move(state_->result);
  }
  std::optional<T> wait_for(std::chrono::milliseconds limit) {
    std::unique_lock lock(state_->mutex);
    if (!state_->changed.wait_for(lock, limit, [this] { return state_->result.has_value(); })) return std::nullopt;
    return std::move(state_->result);
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<T> result;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

Reply refusal(int status, std::string detail) {
  gateway::Reply reply;
  const Wording wording;
  Problem answer = problem(ProblemKind::store_unavailable, std::move(detail));
  answer.status = status;
  if (status != unavailable_status) answer.retryable = Retryable::no;
  write_problem(reply, std::move(answer), {.type_base = default_type_base, .wording = wording}, "",
                gateway::Ending::rejected);
  return sendable(reply, nullptr);
}

Reply stopped_reply() {
  return refusal(unavailable_status, "The service is stopping; nothing was executed.");
}

// The caller asked to stop, or the gate has ended.
Reply cancelled_reply() {
  return refusal(unavailable_status, "The request was cancelled; nothing was executed.");
}

Begun begun_of(BeginResult result) {
  struct Visitor {
    Begun operator()(const Cancelled&) const { return {.reply = cancelled_reply()}; }
    Begun operator()(Reply& reply) const { return {.reply = std::move(reply)}; }
    Begun operator()(std::shared_ptr<HeldRequest>& held) const { return {.claim = Claim(std::move(held))}; }
    Begun operator()(Pass& pass) const { return {.fields = std::move(pass.fields)}; }
  };
  return std::visit(Visitor(), result);
}

Reply reply_of(FinishResult result) {
  if (Reply* const reply = std::get_if<Reply>(&result)) return std::move(*reply);
  return refusal(unavailable_status, "The service has ended; it is unknown whether the outcome was recorded.");
}

Reply not_taken(Ask ask) {
  switch (ask) {
    case Ask::taken: break;
    case Ask::ended: return refusal(mistake_status, "This claim has ended before.");
    case Ask::forked: return refusal(mistake_status, "This claim belongs to another process.");
    case Ask::stopped: return reply_of(Cancelled());
  }
  return reply_of(Cancelled());
}

Reply wait_for_reply(Awaited<FinishResult>& awaited, Ask ask) {
  return ask == Ask::taken ? reply_of(awaited.wait()) : not_taken(ask);
}

LogTarget target_of(const Options& options) {
  if (options.log) {
    return {.kind = LogTarget::Kind::sink, .sink = [log = options.log](std::string_view line) {
              guard::Thrown dropped;
              guard::caught([&] { log(line); }, dropped);
            }};
  }
  return {.kind = options.logging == Logging::off ? LogTarget::Kind::off : LogTarget::Kind::standard_error};
}

// An asynchronous begin, which its caller may stop.
struct AsyncBegin {
  std::move_only_function<void(Begun)> then;
  std::optional<std::stop_callback<std::function<void()>>> cancel;
};

}  // namespace

class Front : public PerProcess<Core, OpenError> {
 public:
  using PerProcess::PerProcess;

  // A tag for a begin that may be cancelled.
  std::uint64_t next_tag() { return last_tag_.fetch_add(1, std::memory_order_relaxed) + 1; }

 private:
  std::atomic<std::uint64_t> last_tag_ = 0;
};

std::expected<Gate, OpenError> Gate::open(const Options& options) {
  const auto make = [options] { return Core::open(options, target_of(options)); };
  auto core = make();
  if (!core) return std::unexpected(std::move(core.error()));
  return Gate(std::make_unique<Front>(*std::move(core), make));
}

Gate::Gate(std::unique_ptr<Front> front) : front_(std::move(front)) {}
Gate::Gate(Gate&& other) noexcept = default;
Gate& Gate::operator=(Gate&& other) noexcept {
  std::swap(front_, other.front_);
  return *this;
}

Gate::~Gate() {
  const std::shared_ptr<Core> core = front_ ? front_->here() : nullptr;
  if (!core) return;
  core->end();
  if (!core->is_own_thread()) core->wait_for_end(end_limit);
}

Begun Gate::begin(const Request& request, const std::stop_token& stop) {
  if (stop.stop_requested()) return {.reply = cancelled_reply()};
  Awaited<BeginResult> awaited;
  const auto core = front_->get();
  if (!core) return {.reply = refusal(unavailable_status, core.error().detail)};
  const std::uint64_t tag = front_->next_tag();
  if ((*core)->begin(request, tag, awaited.completion()) == Core::Begun::stopping) return {.reply = stopped_reply()};
  const std::stop_callback cancel(stop, [&core, tag] { (*core)->cancel(tag); });
  return begun_of(awaited.wait());
}

void Gate::begin(Request request, std::move_only_function<void(Begun)> then, const std::stop_token& stop) {
  if (stop.stop_requested()) return then({.reply = cancelled_reply()});
  const auto core = front_->get();
  if (!core) return then({.reply = refusal(unavailable_status, core.error().detail)});
  const std::uint64_t tag = front_->next_tag();
  const auto begun = std::make_shared<AsyncBegin>(std::move(then));
  // Registered before the begin, which may end at once. A stop between the two is repeated below.
  if (stop.stop_possible()) begun->cancel.emplace(stop, [core = *core, tag] { core->cancel(tag); });
  const auto report = [begun](BeginResult result) { begun->then(begun_of(std::move(result))); };
  if ((*core)->begin(std::move(request), tag, Completion<BeginResult>(report)) == Core::Begun::stopping) {
    return begun->then({.reply = stopped_reply()});
  }
  if (stop.stop_requested()) (*core)->cancel(tag);
}

Reply Gate::finish(const Claim& claim, const Response& response) {
  auto prepared = prepare(response);
  if (!prepared) return refusal(mistake_status, "The response cannot be sent: " + prepared.error() + ".");
  Awaited<FinishResult> awaited;
  return wait_for_reply(awaited, claim.held_->finish(*std::move(prepared), awaited.completion()));
}

void Gate::finish(const Claim& claim, const Response& response, std::move_only_function<void(Reply)> then) {
  auto prepared = prepare(response);
  if (!prepared) return then(refusal(mistake_status, "The response cannot be sent: " + prepared.error() + "."));
  const auto done = std::make_shared<std::move_only_function<void(Reply)>>(std::move(then));
  const auto report = [done](FinishResult result) { (*done)(reply_of(std::move(result))); };
  const Ask ask = claim.held_->finish(*std::move(prepared), Completion<FinishResult>(report));
  if (ask == Ask::ended || ask == Ask::forked) (*done)(not_taken(ask));
}

Reply Gate::abandon(const Claim& claim) {
  Awaited<FinishResult> awaited;
  return wait_for_reply(awaited, claim.held_->abandon(awaited.completion()));
}

Reply Gate::release(const Claim& claim) {
  Awaited<FinishResult> awaited;
  return wait_for_reply(awaited, claim.held_->release(awaited.completion()));
}

Drained Gate::drain(std::chrono::milliseconds deadline) {
  const std::shared_ptr<Core> core = front_->here();
  if (!core) return Drained::all;
  Awaited<StopResult> awaited;
  core->stop(awaited.completion());
  return awaited.wait_for(deadline) ? Drained::all : Drained::timed_out;
}

std::string Gate::metrics() const {
  const std::shared_ptr<Core> core = front_->here();
  return core ? core->metrics() : "";
}

unsigned Claim::attempt() const {
  return held_->facts.attempt;
}
std::uint64_t Claim::fence() const {
  return held_->facts.fence;
}
const std::string& Claim::token() const {
  return held_->facts.token;
}
const std::string& Claim::operation() const {
  return held_->facts.operation;
}
const std::string& Claim::request_id() const {
  return held_->facts.request_id;
}
const std::vector<Field>& Claim::fields() const {
  return held_->facts.fields;
}
std::size_t Claim::max_body() const {
  return held_->facts.max_body;
}
bool Claim::is_protected() const {
  return !held_->facts.token.empty();
}
bool Claim::lost() const {
  return held_->lost->load(std::memory_order_relaxed);
}

}  // namespace once::gate
