#include "sim/process.hpp"

#include <fmt/format.h>

#include "base/assert.hpp"
#include "gateway/identity/identify.hpp"

namespace once::sim {

namespace {

std::string code_of(std::string_view body) {
  constexpr std::string_view member = "\"code\":\"";
  const std::size_t at = body.find(member);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = body.substr(at + member.size());
  return std::string(rest.substr(0, rest.find('"')));
}

}  // namespace

// A request on its way through the gateway. It stays until the process ends, because an exchange may outlive its
// client.
class Process::Call {
 public:
  Call(Process& process, const Asked& asked, std::function<void(const Answer&)> answered)
      : process_(process),
        asked_(asked),
        answered_(std::move(answered)),
        policy_(process.policy_of(asked)),
        body_(body_of(asked)),
        head_text_(fmt::format("POST /route/{} HTTP/1.1\r\nHost: api\r\nAuthorization: caller-{}\r\n"
                               "Idempotency-Key: key-{}\r\nContent-Length: {}\r\n\r\n",
                               asked.operation % process.parts_.routes.size(), asked.caller, asked.operation,
                               body_.size())),
        exchange_({.store = process.lanes_,
                   .waiters = process.waiters_,
                   .executions = process.executions_,
                   .home = process.executor_,
                   .clock = process.parts_.clock,
                   .random = process.random_,
                   .metrics = process.metrics_,
                   .log = process.log_,
                   .errors_base = "urn:once:error:"}) {
    const auto parsed = http::parse(head_text_, http::HeadLimits(), head_);
    ONCE_ASSERT(parsed.parsed == http::Parsed::complete);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Task<void> run() {
    const RequestIdentity identity({.settings = process_.settings_,
                                    .routes = process_.routes_,
                                    .ids = process_.ids_,
                                    .tokens = nullptr,
                                    .clock = process_.parts_.clock},
                                   {.head = head_, .peer = "203.0.113.1"}, policy_);
    const auto id = identity.operation(find_request_key(&policy_, head_).given, body_);
    ONCE_ASSERT(id.has_value());
    const KeyedRequest request{.policy = policy_,
                               .backend = process_.backend_,
                               .counts = process_.metrics_.routes.of(RouteTable::none),
                               .head = head_,
                               .body = body_,
                               .id = *id,
                               .fingerprint = identity.fingerprint(body_),
                               .request_id = "request"};
    co_await exchange_.run(request, reply_);
    if (process_.alive_) report(request);
  }

 private:
  void report(const KeyedRequest& request) {
    Answer answer{.asked = asked_,
                  .status = reply_.status,
                  .idempotency_status = std::string(reply_.fields.find("Idempotency-Status").value_or("")),
                  .id = request.id,
                  .fingerprint = request.fingerprint};
    const bool problem = reply_.fields.find("Content-Type") == "application/problem+json";
    if (problem) answer.code = code_of(reply_.body);
    // A relayed body is not checked.
    if (!problem && !reply_.source) answer.body = reply_.body;
    process_.parts_.world.note(fmt::format("reply: operation {} of caller {}, content {}: {} {} {}", asked_.operation,
                                           asked_.caller, asked_.content, answer.status, answer.idempotency_status,
                                           answer.code.empty() ? answer.body : answer.code));
    if (!reply_.source) process_.parts_.history.answered(answer);
    reply_.reset();
    answered_(answer);
  }

  Process& process_;
  const Asked asked_;
  const std::function<void(const Answer&)> answered_;
  const Policy policy_;
  const std::string body_;
  const std::string head_text_;
  http::RequestHead head_;
  Reply reply_;
  Exchange exchange_;
};

Process::Process(const Parts& parts, std::uint64_t seed)
    : parts_(parts),
      random_(seed),
      log_(parts.clock, -1, LogLevel::off, LogFormat::json),
      executor_(parts.world),
      lanes_(parts.network != nullptr ? static_cast<Store&>(*parts.network) : parts.store, parts.network, parts.world,
             parts.history),
      backend_(parts.world, parts.history, parts.setup, executor_, parts.database),
      operators_({.world = parts.world,
                  .history = parts.history,
                  .store = lanes_.store(),
                  .lanes = lanes_,
                  .waiters = waiters_,
                  .home = executor_}),
      streams_({.world = parts.world, .history = parts.history, .lanes = lanes_, .home = executor_, .random = random_}),
      guards_({.world = parts.world,
               .history = parts.history,
               .lanes = lanes_,
               .waiters = waiters_,
               .executions = executions_,
               .home = executor_,
               .clock = parts.clock,
               .random = random_}) {}

Process::~Process() {
  if (alive_) die();
}

void Process::ask(const Asked& asked, std::function<void(const Answer&)> answered) {
  ONCE_ASSERT(alive_);
  calls_.emplace_back(*this, asked, std::move(answered));
  spawn(calls_.back().run());
}

void Process::die() {
  alive_ = false;
  operators_.cut_off();
  streams_.cut_off();
  guards_.cut_off();
  lanes_.cut_off();
  backend_.cut_off();
  executor_.run_out();
}

}  // namespace once::sim
