#include "gateway/identity/asked_operation.hpp"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "core/headers.hpp"
#include "core/host.hpp"
#include "gateway/identity/identify.hpp"
#include "gateway/identity/origin.hpp"
#include "gateway/identity/token_cache.hpp"
#include "gateway/metrics.hpp"

namespace once::gateway {

namespace {

struct Url {
  std::string_view host;  // empty: the target is only a path
  std::string_view path;
};

Url split_url(std::string_view target) {
  const std::size_t scheme = target.find("://");
  if (target.starts_with('/') || scheme == std::string_view::npos) return {.host = {}, .path = target};
  const std::string_view rest = target.substr(scheme + 3);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  return {.host = rest.substr(0, slash), .path = slash == rest.size() ? "/" : rest.substr(slash)};
}

bool is_same_host(std::string_view a, std::string_view b) {
  std::string scratch_a;
  std::string scratch_b;
  return normalise_host(a, scratch_a) == normalise_host(b, scratch_b);
}

bool has_small_letters(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return c >= 'a' && c <= 'z'; });
}

// The head as it would be sent, without hop-by-hop fields.
std::expected<std::string, std::string> head_text(const AskedRequest& asked, const HostNames& hosts) {
  const Url url = split_url(asked.target);
  std::string text = fmt::format("{} {} HTTP/1.1\r\n", asked.method, url.path);
  bool host = false;
  for (const auto& [name, value] : asked.headers) {
    if (name.empty() || (name + value).find_first_of("\r\n") != std::string::npos) {
      return std::unexpected("A header contains a line break, or has no name.");
    }
    host = host || same_name(name, "Host");
    text.append(name).append(": ").append(value).append("\r\n");
  }
  const std::string_view named = asked.host.empty() ? url.host : std::string_view(asked.host);
  if (named.find_first_of("\r\n") != std::string_view::npos) return std::unexpected("The host contains a line break.");
  if (!host && named.empty() && !hosts.all_same()) {
    return std::unexpected(
        "The host of the client's request is missing, and a key belongs to a host: add \"host\", or use the whole "
        "URL as \"path\".");
  }
  if (!asked.host.empty() && !url.host.empty() && !is_same_host(asked.host, url.host)) {
    return std::unexpected(fmt::format(
        "The host in the URL is {}, but \"host\" is {}: use the host of the client's request.", url.host, asked.host));
  }
  if (!asked.host.empty() || !host) text.append("Host: ").append(named).append("\r\n");
  return text.append("\r\n");
}

// Replaces any key header that the request has.
void set_key(http::RequestHead& head, const KeyPolicy& policy, std::string_view key) {
  std::erase_if(head.fields, [&](const http::Field& field) { return same_name(field.name, policy.header); });
  head.fields.push_back({.name = policy.header, .value = key, .line = {}});
}

}  // namespace

std::expected<OperationId, std::string> operation_of(const ServingSettings& settings, const Routes& routes,
                                                     const OperationIds& ids, const AskedRequest& asked,
                                                     const Clock& clock) {
  const auto text = head_text(asked, settings.hosts);
  if (!text) return std::unexpected(text.error());
  http::RequestHead head;
  const http::ParseResult parsed = parse(*text, {}, head);
  if (parsed.parsed != http::Parsed::complete || head.size != text->size()) {
    return std::unexpected("Method, path and headers are not a valid request.");
  }
  if (head.method == Method::other && has_small_letters(head.method_text)) {
    return std::unexpected(
        fmt::format("The method is {}, but methods are in capitals, such as POST.", head.method_text));
  }
  const auto metrics = std::make_unique<Metrics>();
  std::optional<TokenCache> tokens;
  if (settings.tokens.verifier) tokens.emplace(settings.tokens.verifier, *metrics);
  Origin origin(asked.peer, Origin::Transport::plain);
  origin.trust(settings.trusted_proxies);
  const IdentityRules rules{
      .settings = settings, .routes = routes, .ids = ids, .tokens = tokens ? &*tokens : nullptr, .clock = clock};
  const RequestFacts facts{.head = head,
                           .peer = asked.peer,
                           .trust = origin.peer(),
                           .tls_subject = asked.tls_subject,
                           .tls_issuer = asked.tls_issuer};
  std::string scratch;
  const RoutedRequest routed = route_request(rules, facts, scratch);
  if (routed.refused) return std::unexpected(routed.refused->detail);
  const Policy* policy = routed.route.policy;
  if (policy != nullptr && asked.key) set_key(head, policy->key, *asked.key);
  const RequestKey key = find_request_key(policy, head);
  switch (key.kind) {
    case RequestKey::Kind::not_covered: return std::unexpected("No route protects this request.");
    case RequestKey::Kind::none: return std::unexpected("A key is required: this route does not derive keys.");
    case RequestKey::Kind::refused: return std::unexpected(key.problem->detail);
    case RequestKey::Kind::given:
    case RequestKey::Kind::derived: break;
  }
  const RequestIdentity identity(rules, facts, *policy);
  if (const auto refused = identity.caller_problem()) return std::unexpected(refused->detail);
  const auto id = identity.operation(key.given, asked.body);
  if (!id) return std::unexpected(id.error().detail);
  return *id;
}

}  // namespace once::gateway
