// Lookup and stop by key. The request is identified with the method and path of the operation that it is about, and
// with its own caller and key. The fingerprint is not compared, so the key must belong to a caller.
#include <algorithm>
#include <utility>

#include "gateway/connection/keyed_handler.hpp"

namespace once::gateway {

namespace {

constexpr std::string_view lookup_field = "Idempotency-Lookup";
constexpr std::string_view stop_field = "Idempotency-Stop";

// While this lives, the head has the method and target of the operation.
class AsOperation {
 public:
  AsOperation(http::RequestHead& head, std::string_view method)
      : head_(head), method_(head.method), text_(head.method_text) {
    head_.method = parse_method(method);
    head_.method_text = method;
  }
  AsOperation(const AsOperation&) = delete;
  AsOperation& operator=(const AsOperation&) = delete;
  ~AsOperation() {
    head_.method = method_;
    head_.method_text = text_;
  }

 private:
  http::RequestHead& head_;
  const Method method_;
  const std::string_view text_;
};

bool may_be_asked_about(Method method) {
  return method == Method::post || method == Method::put || method == Method::patch || method == Method::delete_;
}

// Whether the key belongs to an identified caller, so that the key alone proves ownership.
bool is_looked_up_by_caller(const Policy& policy, const RequestIdentity& identity) {
  const bool by_caller = std::ranges::find(policy.scope, ScopePart::caller) != policy.scope.end();
  return by_caller && !identity.caller().empty();
}

std::unexpected<Problem> refused(ProblemKind kind, std::string detail) {
  return std::unexpected(problem(kind, std::move(detail)));
}

// Retrying is no use here, because the path has no keys. A key that is not in the store may still be recorded later.
std::unexpected<Problem> no_keys_here() {
  Problem none = problem(ProblemKind::key_not_found, "This path has no keys for that method.");
  none.retryable = Retryable::no;
  return std::unexpected(std::move(none));
}

std::string caller_needed(std::string_view field) {
  return std::string(field == stop_field ? "Only the caller that sent a request can stop it."
                                         : "Only the caller that sent a request can look it up by its key.") +
         " This request does not identify its caller, or keys on this path do not belong to callers.";
}

}  // namespace

bool KeyedHandler::asks_lookup(const http::RequestHead& head) {
  const bool reads = head.method == Method::get || head.method == Method::head;
  return reads && head.find(lookup_field).has_value();
}

bool KeyedHandler::asks_stop(const http::RequestHead& head) {
  return head.method == Method::delete_ && head.find(stop_field).has_value();
}

std::expected<KeyedHandler::AskedAbout, Problem> KeyedHandler::asked_about(RequestContext& request,
                                                                           std::string_view field, std::string& path) {
  const std::string_view method = *io_.head.find(field);
  if (!may_be_asked_about(parse_method(method))) {
    return refused(ProblemKind::bad_request,
                   std::string(field) + " names the method of the operation: POST, PUT, PATCH or DELETE.");
  }
  const AsOperation as(io_.head, method);
  RoutedRequest routed = route_request(request.rules(), request.facts(), path);
  request.take_route(routed.route);
  request.path = routed.path;
  const Policy* policy = request.route.policy;
  if (policy != nullptr && !policy->cors.origins.empty()) request.cors.emplace(*policy, io_.head);
  if (routed.refused) return std::unexpected(*std::move(routed.refused));
  RequestKey key = find_request_key(policy, io_.head);
  if (key.problem) return std::unexpected(*std::move(key.problem));
  if (key.kind == RequestKey::Kind::not_covered) {
    return no_keys_here();
  }
  if (!key.given) {
    return refused(ProblemKind::key_required, std::string(field) + " needs the header " + policy->key.header + ".");
  }
  const RequestIdentity identity(request.rules(), request.facts(), *policy);
  if (auto problem = identity.caller_problem()) return std::unexpected(*std::move(problem));
  if (!is_looked_up_by_caller(*policy, identity) || policy->mode == Mode::shadow) {
    return refused(ProblemKind::caller_required, caller_needed(field));
  }
  if (is_of_life(*policy, io_.head.method)) {
    return refused(ProblemKind::bad_request,
                   std::string("Keys on this path end with the resource that it names, so a request cannot be ") +
                       (field == stop_field ? "stopped" : "looked up") + " by its key.");
  }
  auto operation = identity.operation(key.given, {});
  if (!operation) return std::unexpected(std::move(operation.error()));
  return AskedAbout{
      .id = *operation, .caller = tenant_.of(shared_.ids, identity.caller()), .reader = identity.holder(tenant_)};
}

bool KeyedHandler::awaits_continue(const Policy& policy) const {
  const http::Framing& framing = io_.head.framing;
  const bool large = framing.kind == http::Framing::Kind::length && framing.length > policy.max_request_body &&
                     framing.length <= policy.max_large_request;
  return io_.head.expects_continue && io_.buffer.empty() && large;
}

Task<Answered> KeyedHandler::refuse_mismatch_unread(RequestContext& request, const Key& key,
                                                    const RequestIdentity& identity) {
  const auto operation = identity.operation(key, {});
  if (!operation || is_of_life(*request.route.policy, io_.head.method)) co_return Answered::no;
  const KeyedRequest asked = request_about(request, *operation);
  const HeadMatch match = co_await exchange_.compare_unread(asked, writer_.reply());
  if (match == HeadMatch::possible) co_return Answered::no;
  request.operation = *operation;
  request.close_unless_read();
  co_await write_reply(request);
  co_return Answered::yes;
}

KeyedRequest KeyedHandler::request_about(RequestContext& request, const OperationId& operation) {
  return {.policy = *request.route.policy,
          .backend = request.generation->backend(request.route.upstream),
          .counts = *request.counts,
          .head = io_.head,
          .body = {},
          .id = operation,
          .fingerprint = {},
          .request_id = request.id(),
          .presence = &presence_,
          .streams = this};
}

Task<void> KeyedHandler::look_up(RequestContext& request, std::string& path) {
  const Limits& limits = request.settings().limits;
  const Usage::Share share = shared_.usage.begin(limits.max_in_flight);
  const auto about = co_await begin_about(request, lookup_field, path, share);
  if (!about) co_return;
  KeyQuota quota(*shared_.quotas, limits, shared_.clock);
  if (limits.caller.any() && !quota.begin(about->caller)) {
    co_await refuse_caller(request, KeyQuota::too_many_at_work);
    co_return;
  }
  const KeyedRequest asked = request_about(request, about->id);
  memory_.begin(limits.max_body_memory, about->reader);
  co_await exchange_.look_up(asked, writer_.reply());
  co_await write_reply(request);
}

// Not subject to the caller's limit of requests in progress, so that a caller at its limit can still stop one.
Task<void> KeyedHandler::stop(RequestContext& request, std::string& path) {
  const Usage::Share share = shared_.usage.begin(request.settings().limits.max_in_flight);
  const auto about = co_await begin_about(request, stop_field, path, share);
  if (!about) co_return;
  const KeyedRequest asked = request_about(request, about->id);
  co_await exchange_.stop(asked, writer_.reply());
  co_await write_reply(request);
}

Task<std::optional<KeyedHandler::AskedAbout>> KeyedHandler::begin_about(RequestContext& request, std::string_view field,
                                                                        std::string& path, const Usage::Share& share) {
  auto about = asked_about(request, field, path);
  request.close_unless_read();
  if (!share) {
    co_await writer_.refuse_overload(request, Overload::in_flight);
    co_return std::nullopt;
  }
  if (!about) {
    co_await writer_.write_problem(request, std::move(about.error()));
    co_return std::nullopt;
  }
  request.operation = about->id;
  co_return *about;
}

}  // namespace once::gateway
