#include "gateway/identity/scope.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/text.hpp"
#include "core/headers.hpp"

namespace once::gateway {

namespace {

using Kind = CallerSource::Kind;

const HostNames all_different;

// Separates the records of a route in shadow mode from protected ones, so that a switch to enforce starts clean.
constexpr std::string_view shadow_mark = "shadow";

FoundSource find_header(std::string_view name, const http::RequestHead& head) {
  FoundSource found;
  for (const http::Field& field : head.fields) {
    if (!same_name(field.name, name)) continue;
    ++found.count;
    found.value = field.value;
  }
  return found;
}

std::string_view scheme_of(std::string_view credentials) {
  return credentials.substr(0, credentials.find_first_of(" \t"));
}

// Payment credentials are made for one attempt and do not identify the caller: a client without other credentials is
// anonymous.
bool is_payment(std::string_view credentials) {
  return iequals(scheme_of(credentials), "Payment");
}

// Whether the value is empty or blank, with or without quotes.
bool is_empty_value(std::string_view value) {
  value = trim(value);
  if (value.size() >= 2 && value.starts_with('"') && value.ends_with('"'))
    value = trim(value.substr(1, value.size() - 2));
  return value.empty();
}

// Whether there is only a scheme: a client whose token is not set sends this.
bool lacks_credentials(std::string_view value) {
  constexpr std::array<std::string_view, 2> schemes = {"Bearer", "Basic"};
  const std::string_view scheme = scheme_of(value);
  if (std::ranges::none_of(schemes, [scheme](std::string_view each) { return iequals(scheme, each); })) return false;
  return is_empty_value(value.substr(scheme.size()));
}

// Whether the credentials are a signature over a time or a nonce. It changes with every attempt, so a retry would count
// as another caller and execute again.
bool is_signature(std::string_view credentials) {
  constexpr std::array<std::string_view, 8> schemes = {
      "AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256", "Signature", "Hawk", "Digest", "Negotiate", "NTLM", "PrivateToken"};
  const std::string_view scheme = scheme_of(credentials);
  if (std::ranges::any_of(schemes, [scheme](std::string_view each) { return iequals(scheme, each); })) return true;
  // OAuth 1. Some clients send a constant token under this name.
  return iequals(scheme, "OAuth") && credentials.contains("oauth_signature=");
}

FoundSource find_source(const CallerSource& source, const http::RequestHead& head, PeerTrust peer) {
  if (source.kind == Kind::proxy_header && peer != PeerTrust::trusted_proxy) return {};
  FoundSource found;
  if (source.kind != Kind::cookie) {
    found = find_header(source.name, head);
    const bool credentials = found.count == 1 && same_name(source.name, "Authorization");
    return credentials && is_payment(found.value) ? FoundSource() : found;
  }
  for (const http::Field& field : head.fields) {
    if (same_name(field.name, "Cookie")) find_cookie(field.value, source.name, found);
  }
  return found;
}

std::string client_ip(const http::RequestHead& head, const CallerFacts& facts) {
  static const http::AddressSet no_proxies;
  const auto address =
      client_address(head, facts.peer, facts.trusted_proxies != nullptr ? *facts.trusted_proxies : no_proxies);
  return address ? address->text() : "";
}

std::string_view mark_of(Kind kind) {
  switch (kind) {
    case Kind::header: return "header";
    case Kind::proxy_header: return "proxy-header";
    case Kind::cookie: return "cookie";
    case Kind::jwt: return "jwt";
    case Kind::mtls_subject: return "mtls";
    case Kind::client_ip: return "ip";
  }
  return "";
}

std::string description_of(const CallerSource& source) {
  switch (source.kind) {
    case Kind::header: return "the header " + source.name;
    case Kind::proxy_header: return "the header " + source.name + " from a trusted proxy";
    case Kind::cookie: return "the cookie " + source.name;
    case Kind::jwt: return "a token with the claim " + source.name;
    case Kind::mtls_subject: return "a client certificate";
    case Kind::client_ip: return "an address";
  }
  return "";
}

}  // namespace

std::optional<http::IpAddress> client_address(const http::RequestHead& head, std::string_view peer,
                                              const http::AddressSet& trusted_proxies) {
  std::vector<std::string_view> forwarded;
  if (!trusted_proxies.empty()) {
    for (const http::Field& field : head.fields) {
      if (same_name(field.name, "X-Forwarded-For")) forwarded.push_back(field.value);
    }
  }
  return http::client_address(peer, std::move(forwarded), trusted_proxies);
}

bool is_proven(const Policy& policy, const ScopeParts& scope) {
  if (scope.verified()) return true;
  if (scope.caller().empty()) return false;
  return std::ranges::any_of(policy.caller, [](const CallerSource& source) {
    return source.kind == Kind::jwt || source.kind == Kind::mtls_subject || source.kind == Kind::proxy_header;
  });
}

void find_cookie(std::string_view header, std::string_view name, FoundSource& found) {
  while (!header.empty()) {
    const std::size_t end = header.find(';');
    const std::string_view pair = trim(header.substr(0, end));
    const std::size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == name) {
      ++found.count;
      found.value = pair.substr(equals + 1);
    }
    header.remove_prefix(end == std::string_view::npos ? header.size() : end + 1);
  }
}

std::optional<std::string_view> bearer_token(std::string_view authorization) {
  constexpr std::string_view scheme = "Bearer";
  if (!iequals(authorization.substr(0, scheme.size()), scheme)) return std::nullopt;
  const std::string_view rest = authorization.substr(scheme.size());
  if (!rest.empty() && rest.front() != ' ') return std::nullopt;
  return trim(rest);
}

// An empty value is the same as none: a proxy may drop an empty field between two tries.
void ScopeParts::add_source(const CallerSource& source, std::string_view value) {
  const bool empty = is_empty_value(value) || (same_name(source.name, "Authorization") && lacks_credentials(value));
  if (missing_ == nullptr && empty) missing_ = &source;
  // Include the source: "7" in one header is not "7" in another, in a cookie or in a claim.
  add(mark_of(source.kind));
  add(source.name);
  add(empty ? "absent" : "given");
  add(empty ? std::string_view() : value);
}

void ScopeParts::read_token(const CallerSource& source, const http::RequestHead& head, const CallerFacts& facts) {
  token_read_ = true;
  ONCE_ASSERT(facts.tokens != nullptr);
  const FoundSource found = find_header(facts.token_header, head);
  if (found.count > 1) ambiguous_ = &source;
  if (found.count != 1) return;
  const bool behind_scheme = same_name(facts.token_header, "Authorization");
  const auto text = behind_scheme ? bearer_token(found.value) : std::optional(found.value);
  if (!text) return;
  auto verified = facts.tokens->verify(*text, facts.now);
  if (verified) {
    token_ = *std::move(verified);
  } else {
    token_fault_ = verified.error();
  }
}

// Include the issuer: two issuers may use the same name for different people.
void ScopeParts::add_claim(const CallerSource& source, const http::RequestHead& head, const CallerFacts& facts) {
  if (!token_read_) read_token(source, head, facts);
  std::string_view claim;
  if (token_) {
    const auto index = facts.tokens->index_of(source.name);
    ONCE_ASSERT(index.has_value());
    if (token_->claims[*index]) claim = *token_->claims[*index];
  }
  add(claim.empty() ? std::string_view() : std::string_view(token_->issuer));
  add_source(source, claim);
}

// On a route whose only source is a header of a trusted proxy, the verified caller is used as the value of that header,
// so that a gateway behind the proxy computes the same ids.
void ScopeParts::add_verified(const Policy& policy, std::string_view caller) {
  verified_ = true;
  if (policy.caller.size() == 1 && policy.caller.front().kind == Kind::proxy_header) {
    add_source(policy.caller.front(), caller);
    return;
  }
  add("program");
  add("");  // no source has an empty mark, so this cannot be confused with an issuer and its claim
  add("given");
  add(caller);
}

void ScopeParts::add_caller(const Policy& policy, const http::RequestHead& head, const CallerFacts& facts) {
  ONCE_ASSERT(policy.caller.size() <= max_caller_sources);
  caller_begin_ = count_;
  if (!facts.verified.empty()) {
    add_verified(policy, facts.verified);
    caller_count_ = count_ - caller_begin_;
    return;
  }
  for (const CallerSource& source : policy.caller) {
    switch (source.kind) {
      case Kind::header:
      case Kind::proxy_header:
      case Kind::cookie: {
        const FoundSource found = find_source(source, head, facts.trust);
        if (found.count > 1) ambiguous_ = &source;
        if (same_name(source.name, "Authorization") && is_signature(found.value)) signed_by_ = scheme_of(found.value);
        add_source(source, found.value);
        break;
      }
      case Kind::jwt: add_claim(source, head, facts); break;
      case Kind::mtls_subject:
        add(facts.tls_issuer);  // two authorities may issue the same subject to different clients
        add_source(source, facts.tls_subject);
        break;
      case Kind::client_ip:
        client_ip_ = client_ip(head, facts);
        add_source(source, client_ip_);
        break;
    }
  }
  caller_count_ = count_ - caller_begin_;
}

void ScopeParts::add_header(std::string_view name, const http::RequestHead& head) {
  const FoundSource found = find_header(name, head);
  if (found.count > 1) repeated_ = name;
  add("acts for");
  add(name);
  add(found.count > 0 ? "given" : "absent");
  add(found.value);
}

ScopeParts::ScopeParts(const Policy& policy, const http::RequestHead& head, const CallerFacts& facts)
    : host_(head, facts.hosts != nullptr ? *facts.hosts : all_different, facts.trust) {
  // Always include the host: two hosts behind one gateway can be two tenants.
  add("host");
  for (const std::string_view part : host_.parts()) add(part);
  for (const ScopePart part : policy.scope) {
    switch (part) {
      case ScopePart::caller:
        add("caller");
        add_caller(policy, head, facts);
        break;
      case ScopePart::method:
        add("method");
        add(head.method_text);
        break;
      case ScopePart::path:
        add("path");
        add(head.path);
        break;
      case ScopePart::life: break;  // looked up with every claim, but no part of the id: life.hpp
    }
  }
  ONCE_ASSERT(policy.scope_headers.size() <= max_scope_headers);
  for (const std::string& name : policy.scope_headers) add_header(name, head);
  if (policy.mode == Mode::shadow) add(shadow_mark);
}

std::optional<Problem> caller_problem(const Policy& policy, const ScopeParts& scope, std::string_view token_header) {
  if (const CallerSource* source = scope.ambiguous()) {
    const std::string_view name = source->kind == Kind::jwt ? token_header : std::string_view(source->name);
    return problem(ProblemKind::bad_request,
                   fmt::format("The request identifies its caller more than once: {}.", name));
  }
  if (!scope.repeated().empty()) {
    return problem(ProblemKind::bad_request, fmt::format("The header {} appears more than once.", scope.repeated()));
  }
  if (!scope.signed_by().empty()) {
    return problem(ProblemKind::caller_required,
                   fmt::format("Authorization: {} is different in every retry, so it cannot name the caller of a key.",
                               scope.signed_by()));
  }
  if (const auto fault = scope.token_fault()) {
    Problem refused = problem(ProblemKind::token_invalid, fmt::format("The token is not valid: {}.", describe(*fault)));
    refused.challenge = "Bearer error=\"invalid_token\"";
    return refused;
  }
  if (policy.caller_missing == CallerMissing::anonymous || scope.missing() == nullptr) return std::nullopt;
  Problem refused = problem(ProblemKind::caller_required,
                            fmt::format("A request with a key needs {}.", description_of(*scope.missing())));
  if (std::ranges::any_of(policy.caller, [](const CallerSource& source) { return source.kind == Kind::jwt; })) {
    refused.challenge = "Bearer";
  }
  return refused;
}

}  // namespace once::gateway
