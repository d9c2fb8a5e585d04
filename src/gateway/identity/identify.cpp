#include "gateway/identity/identify.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/fingerprint.hpp"
#include "core/headers.hpp"
#include "core/path.hpp"
#include "gateway/identity/derived_key.hpp"
#include "gateway/identity/evasion.hpp"
#include "gateway/upstream/forward.hpp"
#include "http/endpoint.hpp"

namespace once::gateway {

namespace {

struct FoundKey {
  std::size_t count = 0;
  std::string_view value;
};

FoundKey find_key(const http::RequestHead& head, std::string_view name) {
  FoundKey found;
  for (const http::Field& field : head.fields) {
    if (!same_name(field.name, name)) continue;
    ++found.count;
    found.value = field.value;
  }
  return found;
}

// A problem if a backend could read the request differently.
std::optional<Problem> could_be_another(const IdentityRules& rules, const RequestFacts& facts,
                                        const RoutedRequest& routed, const NamedFields& named) {
  const http::RequestHead& head = facts.head;
  auto refused = route_evaded(rules.routes, routed.route, head, routed.path);
  if (!refused) refused = field_dropped(head, named);
  if (!refused) refused = unreadable_forwarded(head, facts.trust);
  if (!refused) refused = misdirected(head, facts.transport == Origin::Transport::tls, facts.trust);
  return refused;
}

CallerFacts caller_facts(const IdentityRules& rules, const RequestFacts& facts, const Policy& policy) {
  const auto is_claim = [](const CallerSource& source) { return source.kind == CallerSource::Kind::jwt; };
  const bool reads_token = std::ranges::any_of(policy.caller, is_claim);
  return {.hosts = &rules.settings.hosts,
          .trust = facts.trust,
          .peer = facts.peer,
          .tls_subject = facts.tls_subject,
          .tls_issuer = facts.tls_issuer,
          .trusted_proxies = &rules.settings.trusted_proxies,
          .token_header = rules.settings.tokens.header,
          .tokens = rules.tokens,
          .now = reads_token ? rules.clock.now() : Time(),
          .verified = facts.verified_caller};
}

RequestKey refused_key(ProblemKind kind, std::string detail) {
  return {.kind = RequestKey::Kind::refused, .problem = problem(kind, std::move(detail))};
}

}  // namespace

RoutedRequest route_request(const IdentityRules& rules, const RequestFacts& facts, std::string& scratch) {
  http::RequestHead& head = facts.head;
  const auto path = normalise_path(head.path, scratch);
  if (!path) {
    return {
        .route = rules.routes.none(), .path = {}, .refused = problem(ProblemKind::bad_request, describe(path.error()))};
  }
  RoutedRequest routed{
      .route = rules.routes.find(head.method, *path, head.host), .path = *path, .refused = std::nullopt};
  const NamedFields named(routed.route.policy, rules.settings.tokens.header);
  routed.refused = could_be_another(rules, facts, routed, named);
  if (routed.refused) return routed;
  drop_disguised(head, named, facts.trust);
  if (facts.fields_joined) separate_joined(head, named);
  const std::string& base_path = rules.settings.upstreams[routed.route.upstream].base_path;
  if (leaves_prefix(head.path, routed.path, routed.route.strip_prefix, base_path)) {
    routed.refused =
        problem(ProblemKind::bad_request,
                "The path contains dot segments, empty segments or backslashes, which this route does not accept.");
  }
  return routed;
}

RequestKey find_request_key(const Policy* policy, const http::RequestHead& head) {
  static const KeyPolicy usual_key;
  const KeyPolicy& rule = policy != nullptr ? policy->key : usual_key;
  const FoundKey found = find_key(head, rule.header);
  const bool covered = policy != nullptr && !is_safe(head.method) && contains(policy->methods, head.method);
  if (!covered) return {.kind = RequestKey::Kind::not_covered, .ignored = found.count > 0};
  if (found.count == 0) {
    if (!rule.derive.empty()) return {.kind = RequestKey::Kind::derived};
    if (rule.required == Required::no) return {.kind = RequestKey::Kind::none};
    return refused_key(ProblemKind::key_required, "This request needs the header " + rule.header + ".");
  }
  auto key = found.count > 1 ? std::unexpected(KeyError::several) : parse_key(found.value, rule.max_length);
  if (!key) return refused_key(ProblemKind::key_invalid, rule.header + ": " + describe(key.error()));
  return {.kind = RequestKey::Kind::given, .given = *std::move(key)};
}

RequestIdentity::RequestIdentity(const IdentityRules& rules, const RequestFacts& facts, const Policy& policy)
    : rules_(rules), facts_(facts), policy_(policy), scope_(policy, facts.head, caller_facts(rules, facts, policy)) {}

std::optional<Problem> RequestIdentity::caller_problem() const {
  return gateway::caller_problem(policy_, scope_, rules_.settings.tokens.header);
}

std::expected<OperationId, Problem> RequestIdentity::operation(const std::optional<Key>& given,
                                                               std::string_view body) const {
  if (given) return rules_.ids.make(scope_.parts(), given->view());
  const auto derived = derived_key(policy_.key, facts_.head, body);
  if (derived) return rules_.ids.make(scope_.parts(), *derived);
  return std::unexpected(problem(ProblemKind::key_required, "This request has no " + policy_.key.header +
                                                                ", and the gateway cannot derive one without " +
                                                                text_of(*derived.error()) + "."));
}

Fingerprint RequestIdentity::fingerprint(std::string_view body) const {
  const http::RequestHead& head = facts_.head;
  return core::fingerprint(policy_.fingerprint, head.method_text, head.target, head.find("Content-Type").value_or(""),
                           body);
}

LargeFingerprint RequestIdentity::large_fingerprint(std::optional<std::uint64_t> length) const {
  const http::RequestHead& head = facts_.head;
  return {policy_.fingerprint, head.method_text, head.target, head.find("Content-Type").value_or(""), length};
}

std::optional<TenantTag> RequestIdentity::limited_address() const {
  return rules_.settings.limits.address.any() ? unproven_address() : std::nullopt;
}

TenantTag RequestIdentity::holder(TenantMemo& memo) const {
  const auto address = unproven_address();
  if (address || caller().empty()) return address.value_or(TenantTag());
  return memo.of(rules_.ids, caller());
}

std::optional<TenantTag> RequestIdentity::unproven_address() const {
  if (is_proven(policy_, scope_)) return std::nullopt;
  const auto address = client_address(facts_.head, facts_.peer, rules_.settings.trusted_proxies);
  if (!address && facts_.peer == http::unix_peer) return std::nullopt;  // a local peer
  if (!address) return TenantTag();                                     // all callers of unknown address share one tag
  return std::bit_cast<TenantTag>(http::network_of(*address));
}

std::string_view tenant_of(std::span<const std::string_view> caller, const OperationIds& ids, TenantMemo& memo) {
  if (caller.empty()) return {};
  const TenantTag& tag = memo.of(ids, caller);
  return {tag.data(), tag.size()};
}

}  // namespace once::gateway
