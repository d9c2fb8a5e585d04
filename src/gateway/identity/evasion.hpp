// Refuses or repairs requests that a backend could read differently than Once: ways around a route, its key or its
// caller. Runs before anything is forwarded.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include "core/problem.hpp"
#include "gateway/identity/host.hpp"
#include "gateway/identity/routes.hpp"
#include "http/head.hpp"

namespace once::gateway {

// A problem if a backend could read the method or path as one of another route. `normal` is the path in its normal
// form. nullopt: it cannot.
std::optional<Problem> route_evaded(const Routes& routes, const RoutedPolicy& routed, const http::RequestHead& head,
                                    std::string_view normal);

// A problem if a trusted proxy sent a Forwarded field that cannot be parsed: a more lenient parser would find another
// host, and the key is bound to the host. nullopt: it can be parsed, or is not used.
std::optional<Problem> unreadable_forwarded(const http::RequestHead& head, PeerTrust peer);

// A problem if the target is a URL of another scheme than the connection (RFC 9110 7.4). A trusted proxy may have
// terminated TLS. nullopt: it is not.
std::optional<Problem> misdirected(const http::RequestHead& head, bool secure, PeerTrust peer);

// The fields that a route relies on, besides those of every request.
class NamedFields {
 public:
  // Null: no route.
  NamedFields(const Policy* policy, std::string_view token_header) : policy_(policy), token_header_(token_header) {}

  // Calls `found` with each name until it returns true.
  template <class Found>
  bool any(Found found) const {
    if (policy_ == nullptr) return false;
    if (found(std::string_view(policy_->key.header))) return true;
    for (const CallerSource& source : policy_->caller) {
      using Kind = CallerSource::Kind;
      if (source.kind == Kind::jwt && found(token_header_)) return true;
      const bool header = source.kind == Kind::header || source.kind == Kind::proxy_header;
      if (header && found(std::string_view(source.name))) return true;
    }
    for (const std::string& name : policy_->scope_headers) {
      if (found(std::string_view(name))) return true;
    }
    for (const KeySource& source : policy_->key.derive) {
      if (source.kind == KeySource::Kind::header && found(std::string_view(source.name))) return true;
    }
    return false;
  }

  // Whether a cookie names the caller.
  bool cookie() const {
    return policy_ != nullptr && std::ranges::any_of(policy_->caller, [](const CallerSource& source) {
             return source.kind == CallerSource::Kind::cookie;
           });
  }

 private:
  const Policy* policy_;
  std::string_view token_header_;
};

// A problem if Connection names a field that identifies the request, its caller or its origin: Once would use the field
// and then drop it as hop-by-hop. nullopt: it does not.
std::optional<Problem> field_dropped(const http::RequestHead& head, const NamedFields& named);

// For servers that join repeated fields with commas (CGI, WSGI): splits those that a route relies on, so that two keys
// or two callers are still refused. A value that itself contains a comma counts as two, because they cannot be
// distinguished. Only Authorization keeps its comma-separated parameters together.
void separate_joined(http::RequestHead& head, const NamedFields& named);

// Removes fields that a backend may take for others: those that differ only in _ and - from a field that Once or a
// backend relies on and, unless a trusted proxy sent them, fields that override the URL.
void drop_disguised(http::RequestHead& head, const NamedFields& named, PeerTrust peer);

}  // namespace once::gateway
