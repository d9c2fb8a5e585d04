// What the tests of the exchange stand on: gateways on one store, a backend, and virtual time. Everything that happens
// is written into one trace, so that the order of events can be read off it.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include "core/dialect.hpp"
#include "gateway/exchange/exchange.hpp"
#include "sim/random.hpp"
#include "tests/unit/support/faulty_store.hpp"
#include "tests/unit/support/log_file.hpp"
#include "tests/unit/support/scripted_backend.hpp"
#include "tests/unit/support/virtual_time.hpp"

namespace once::gateway {

using Execution = FaultyStore::Execution;

inline OperationId operation(int key) {
  OperationId id;
  id.bytes.fill(static_cast<std::uint8_t>(key));
  return id;
}

inline Fingerprint fingerprint_of(int content) {
  Fingerprint fingerprint;
  fingerprint.bytes.fill(static_cast<std::uint8_t>(content));
  return fingerprint;
}

// Whoever sends: what is stored for them is counted, and nothing is refused.
inline constexpr TenantTag payer{'p'};
inline Limits counted_limits(std::size_t quota) {
  Limits limits;
  limits.caller.stored_bytes = limits.address.stored_bytes = quota;
  return limits;
}

enum class Asks : std::uint8_t { execution, stop, look_up };

struct Ask {
  int key = 1;
  int content = 1;  // what the request asks for, as the fingerprint sees it
  std::optional<OperationId> life = std::nullopt;
  bool streams = false;  // its client takes a response as it comes
  bool writes_resource = false;
  Asks what = Asks::execution;
  std::size_t quota = std::size_t{1} << 40U;  // of stored bytes
};

inline constexpr Ask streaming{.streams = true};
inline constexpr Ask stopping{.what = Asks::stop};

// One request on its way, and what its client got.
class Call final : private Presence, private ReplyStart {
 public:
  Call(const ExchangePorts& ports, QuotaTables& quotas, const Policy& policy, Backend& backend, std::string request_id,
       Trace& trace, const std::string& fields = "")
      : quotas_(quotas),
        policy_(policy),
        backend_(backend),
        request_id_(std::move(request_id)),
        trace_(trace),
        exchange_(ports) {
    head_text_ = "POST /payments HTTP/1.1\r\nHost: api\r\n" + fields + "Content-Length: 8\r\n\r\n";
    const auto parsed = http::parse(head_text_, http::HeadLimits(), head_);
    ONCE_ASSERT(parsed.parsed == http::Parsed::complete);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // A connection sends one request after the other through the same exchange.
  void start(const Ask& ask) {
    reply_.reset();
    ended_ = false;
    spawn(run(ask));
  }

  // The client closes its connection.
  void leave() {
    here_ = false;
    if (listener_ != nullptr) listener_->client_left();
  }
  bool listened_to() const { return listener_ != nullptr; }

  bool ended() const { return ended_; }
  // What came of a body that streams.
  const std::string& told() const { return told_; }
  std::optional<http::BodyChunk::Kind> stream_end() const { return stream_end_; }
  // "one two (end)": what came, and how it ended.
  std::string stream() const {
    if (!stream_end_) return told_;
    return told_ + (*stream_end_ == http::BodyChunk::Kind::end ? " (end)" : " (broken)");
  }
  const Reply& reply() const { return reply_; }
  int status() const { return reply_.status; }
  std::string body() const { return std::string(reply_.body); }

  // "" if it is not there; a name that is there twice is never right.
  std::string header(std::string_view name) const {
    std::string found;
    std::size_t count = 0;
    for (const Field& field : reply_.fields) {
      if (!same_name(field.name, name)) continue;
      found = field.value;
      ++count;
    }
    EXPECT_LE(count, 1U) << name << " twice in " << reply_.fields.lines();
    return found;
  }
  std::string idempotency_status() const { return header("Idempotency-Status"); }
  std::string retry_after() const { return header("Retry-After"); }

  // Of a problem of our own; "" for a response of the backend.
  std::string code() const {
    if (header("Content-Type") != "application/problem+json") return "";
    constexpr std::string_view member = "\"code\":\"";
    const std::size_t begin = body().find(member) + member.size();
    return body().substr(begin, body().find('"', begin) - begin);
  }
  // "201 executed done", "409 unknown outcome-unknown": its status, what Once says of it, and its body or code.
  std::string answer() const {
    const std::string said = idempotency_status().empty() ? "-" : idempotency_status();
    return std::to_string(status()) + " " + said + " " + (code().empty() ? body() : code());
  }
  bool retryable() const { return body().contains("\"retryable\":true"); }

 private:
  bool listen(Listener& listener) override {
    if (here_) listener_ = &listener;
    return here_;
  }
  void stop_listening() override { listener_ = nullptr; }
  bool has_left() override { return !here_; }

  void begin_reply() override {
    begun_ = true;
    spawn(read_stream());
  }

  Task<void> read_stream() {
    using Kind = http::BodyChunk::Kind;
    while (!stream_end_) {
      const http::BodyChunk chunk = co_await reply_.source->next(std::chrono::minutes(1));
      if (chunk.kind != Kind::data) stream_end_ = chunk.kind;
      if (chunk.kind != Kind::data) continue;
      told_.append(chunk.data);
      trace_.push_back(std::string("told: ").append(chunk.data));
    }
    reply_.source.reset();
  }

  Task<void> run(Ask ask) {
    const Limits limits = counted_limits(ask.quota);
    KeyQuota quota(quotas_, limits, exchange_.ports().clock);
    EXPECT_TRUE(quota.begin(payer));
    quota.charge(payer);
    const KeyedRequest request{.policy = policy_,
                               .backend = backend_,
                               .counts = exchange_.ports().metrics.routes.of("/payments"),
                               .head = head_,
                               .body = "amount=1",
                               .id = operation(ask.key),
                               .fingerprint = fingerprint_of(ask.content),
                               .request_id = request_id_,
                               .route = "/payments",
                               .holder = payer,
                               .quota = ask.what == Asks::execution ? &quota : nullptr,
                               .presence = this,
                               .life = ask.life,
                               .streams = ask.streams ? this : nullptr,
                               .writes_resource = ask.writes_resource};
    if (ask.what == Asks::stop) {
      co_await exchange_.stop(request, reply_);
    } else if (ask.what == Asks::look_up) {
      co_await exchange_.look_up(request, reply_);
    } else {
      co_await exchange_.run(request, reply_);
      quota.settle(reply_);
    }
    ended_ = true;
    if (ask.streams && !begun_ && reply_.source) begin_reply();
    trace_.push_back("reply: " + std::to_string(reply_.status) + " " + std::string(name_of(reply_.ending)));
  }

  std::string head_text_;
  QuotaTables& quotas_;
  const Policy policy_;
  Backend& backend_;
  const std::string request_id_;
  Trace& trace_;
  http::RequestHead head_;
  Reply reply_;
  Exchange exchange_;
  Listener* listener_ = nullptr;
  bool here_ = true;
  bool ended_ = false;
  bool begun_ = false;
  std::string told_;
  std::optional<http::BodyChunk::Kind> stream_end_;
};

// A process: its own waiters, executions, nonces and numbers.
class TestGateway {
 public:
  TestGateway(Lanes& lanes, VirtualExecutor& executor, ManualClock& clock, ScriptedBackend& backend, Trace& trace,
              std::uint64_t seed)
      : backend_(backend),
        trace_(trace),
        random_(seed),
        log_(clock, LogLevel::warn),
        ports_{.store = lanes,
               .waiters = waiters_,
               .executions = executions_,
               .home = executor,
               .clock = clock,
               .random = random_,
               .metrics = metrics,
               .log = log_.log,
               .errors_base = "urn:once:error:",
               .streams = &streams_} {}
  TestGateway(const TestGateway&) = delete;
  TestGateway& operator=(const TestGateway&) = delete;

  Call& send(const Policy& policy, const Ask& ask = Ask(), const std::string& fields = "") {
    const std::string request_id = "request-" + std::to_string(calls_.size() + 1);
    calls_.push_back(std::make_unique<Call>(ports_, *quotas_, policy, backend_, request_id, trace_, fields));
    calls_.back()->start(ask);
    return *calls_.back();
  }
  const std::vector<std::unique_ptr<Call>>& calls() const { return calls_; }
  const ExchangePorts& ports() const { return ports_; }

  // Warnings and errors.
  std::string logged() const { return log_.text(); }

  const RouteMetrics& counts() { return metrics.routes.of("/payments"); }
  std::uint64_t outcomes(ClaimEnd settled) { return counts().outcomes[static_cast<std::size_t>(settled)].value(); }

  // What it counts as stored for those who send.
  std::size_t counted() { return quotas_->networks.stored_bytes(payer, ports_.clock.running()); }
  std::size_t counted_for_caller() { return quotas_->callers.stored_bytes(payer, ports_.clock.running()); }

  Metrics metrics;

 private:
  const std::shared_ptr<QuotaTables> quotas_ = std::make_shared<QuotaTables>();
  ScriptedBackend& backend_;
  Trace& trace_;
  Waiters waiters_;
  Executions executions_;
  Usage usage_;
  LiveStreams streams_{usage_};
  SeededRandom random_;
  LogFile log_;
  ExchangePorts ports_;
  std::vector<std::unique_ptr<Call>> calls_;
};

// A retry is answered at once, and an attempt that nobody knows the end of may be taken over later.
inline Policy impatient_policy() {
  Policy policy = *dialect("ietf");
  policy.record.stream = StreamRecording::automatic;
  policy.in_flight = InFlight::reject;
  policy.on_unknown = OnUnknown::takeover;
  return policy;
}

// Two gateways on one store; most tests use only the first.
struct World {
  explicit World(Shared shared = Shared::yes, Execution execution = Execution::in_a_lane)
      : store(clock, shared, execution, trace) {}
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() {
    store.heal();
    executor.run_to_the_end();
    if (!by_others) EXPECT_GE(counted(), kept()) << "the store has what nobody is charged for";
    EXPECT_EQ(gateway.metrics.in_flight.value(), 0U);
    EXPECT_EQ(gateway.metrics.waiting.value(), 0U);
  }

  Call& send(const Ask& ask = Ask()) { return gateway.send(policy, ask); }
  // Sent, and ended.
  Call& ask(const Ask& ask = Ask()) {
    Call& call = send(ask);
    run_until_ended(call);
    return call;
  }
  // The same, at the other gateway.
  Call& ask_other(const Ask& ask = Ask()) {
    Call& call = other.send(policy, ask);
    run_until_ended(call);
    return call;
  }
  // Sent, and everything that follows from it has happened.
  Call& stream(const Ask& ask = streaming) {
    Call& call = this->ask(ask);
    executor.run_to_the_end();
    return call;
  }
  void run_until_ended(const Call& call) {
    EXPECT_TRUE(executor.run_until([&] { return call.ended(); })) << "the request never ends";
  }
  // The same, when the backend does what the script says.
  Call& send_when(BackendScript script, const Ask& ask = Ask()) {
    backend.then(std::move(script));
    return send(ask);
  }
  Call& ask_when(BackendScript script, const Ask& ask = Ask()) {
    backend.then(std::move(script));
    return this->ask(ask);
  }
  Call& stream_when(BackendScript script, const Ask& ask = streaming) {
    backend.then(std::move(script));
    return stream(ask);
  }
  // So much time has passed.
  void expect_since(Time then, Duration least, Duration most) const {
    EXPECT_GE(clock.now() - then, least);
    EXPECT_LE(clock.now() - then, most);
  }
  // A first request, so that there is a record of what the script says.
  void after_execution(BackendScript script) {
    backend.then(std::move(script));
    ask();
    trace.clear();
  }
  std::optional<Record> record(int key = 1) { return store.record(operation(key)); }
  std::optional<State> state(int key = 1) {
    const auto found = record(key);
    return found ? std::optional(found->state) : std::nullopt;
  }
  // The store comes back empty, as a Redis without persistence does when it is restarted.
  void lose_record() {
    const std::optional<Record> lost = record();
    ASSERT_TRUE(lost);
    Op op{.verb = Verb::release, .id = operation(1), .nonce = lost->nonce};
    store.run_inside(op);
    ASSERT_FALSE(record());
  }
  // Bytes of responses that the store holds.
  std::size_t kept() {
    std::size_t bytes = 0;
    for (int key = 0; key < 256; ++key) {
      Op read{.verb = Verb::read, .id = operation(key), .chunk_bytes = std::string::npos};
      store.run_inside(read);
      if (read.record && read.record->outcome) bytes += read.record->outcome->size();
      constexpr std::size_t of_a_chunk = 112;  // beside its bytes
      for (const OutcomeBytes& chunk : read.chunks) bytes += chunk->size() + of_a_chunk;
    }
    return bytes;
  }
  std::size_t counted() { return gateway.counted_for_caller() + other.counted_for_caller(); }

  bool by_others = false;  // responses are recorded that no gateway knows of
  Trace trace;
  ManualClock clock;
  VirtualExecutor executor{clock};
  FaultyStore store;
  VirtualLanes lanes{store, executor};
  ScriptedBackend backend{executor, trace};
  Policy policy = impatient_policy();
  TestGateway gateway{lanes, executor, clock, backend, trace, 1};
  TestGateway other{lanes, executor, clock, backend, trace, 2};
};

// Both ways in which a store can be reached, shared or not.
struct Setting {
  Shared shared;
  Execution execution;
};

class EveryStore : public testing::TestWithParam<Setting> {
 protected:
  World world{GetParam().shared, GetParam().execution};
};

inline std::string name_of_setting(const testing::TestParamInfo<Setting>& info) {
  return std::string(info.param.shared == Shared::yes ? "shared" : "unshared") +
         (info.param.execution == Execution::at_once ? "_at_once" : "_in_a_lane");
}

inline auto every_setting() {
  return testing::Values(Setting{Shared::no, Execution::at_once}, Setting{Shared::yes, Execution::at_once},
                         Setting{Shared::no, Execution::in_a_lane}, Setting{Shared::yes, Execution::in_a_lane});
}

}  // namespace once::gateway
