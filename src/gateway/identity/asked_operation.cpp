#include "gateway/identity/asked_operation.hpp"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "core/headers.hpp"
#include "core/host.hpp"
#include "core/key.hpp"
#include "core/path.hpp"
#include "gateway/identity/derived_key.hpp"
#include "gateway/identity/origin.hpp"
#include "gateway/identity/scope.hpp"
#include "gateway/identity/token_cache.hpp"

namespace once {

namespace {

struct Url {
  std::string_view host;  // empty: there is only a path
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

// The head as it would come over the wire, but without what only a connection needs.
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

std::expected<std::string, std::string> key_of(const AskedRequest& asked, const Policy& policy,
                                               const http::RequestHead& head) {
  if (asked.key) {
    const auto key = parse_key(*asked.key, policy.key.max_length);
    if (!key) return std::unexpected(fmt::format("The key is not valid: {}", describe(key.error())));
    return std::string(key->view());
  }
  if (policy.key.derive.empty()) return std::unexpected("A key is required: this route does not derive keys.");
  auto derived = derived_key(policy.key, head, asked.body);
  if (!derived)
    return std::unexpected(fmt::format("The key cannot be derived: {} is missing.", text_of(*derived.error())));
  return *std::move(derived);
}

}  // namespace

std::expected<OperationId, std::string> operation_of(const Generation& generation, const OperationIds& ids,
                                                     const AskedRequest& asked, Time now) {
  const auto text = head_text(asked, generation.settings.hosts);
  if (!text) return std::unexpected(text.error());
  http::RequestHead head;
  const http::ParseResult parsed = parse(*text, {}, head);
  if (parsed.parsed != http::Parsed::complete || head.size != text->size()) {
    return std::unexpected("Method, path and headers are not a valid request.");
  }
  std::string scratch;
  const auto path = normalise_path(head.path, scratch);
  if (!path) return std::unexpected(describe(path.error()));
  if (head.method == Method::other && has_small_letters(head.method_text)) {
    return std::unexpected(
        fmt::format("The method is {}, but methods are in capitals, such as POST.", head.method_text));
  }
  const Policy* policy = generation.routes.find(head.method, *path, head.host).policy;
  if (policy == nullptr || !policy->methods.test(static_cast<std::size_t>(head.method))) {
    return std::unexpected("No route protects this request.");
  }
  const auto key = key_of(asked, *policy, head);
  if (!key) return std::unexpected(key.error());
  const auto metrics = std::make_unique<Metrics>();
  std::optional<TokenCache> tokens;
  if (generation.settings.tokens.verifier) tokens.emplace(generation.settings.tokens.verifier, *metrics);
  Origin origin(asked.peer, Origin::Transport::plain);
  origin.trust(generation.settings.trusted_proxies);
  const CallerFacts facts{.hosts = &generation.settings.hosts,
                          .trust = origin.peer(),
                          .peer = asked.peer,
                          .tls_subject = asked.tls_subject,
                          .tls_issuer = asked.tls_issuer,
                          .trusted_proxies = &generation.settings.trusted_proxies,
                          .token_header = generation.settings.tokens.header,
                          .tokens = tokens ? &*tokens : nullptr,
                          .now = now};
  const ScopeParts scope(*policy, head, facts);
  if (const auto refused = caller_problem(*policy, scope, facts.token_header)) return std::unexpected(refused->detail);
  return ids.make(scope.parts(), *key);
}

}  // namespace once
