// Requests that would be one thing here and another at the backend: ways around a route, its key or its caller. Refused
// before anything is forwarded.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include "core/problem.hpp"
#include "gateway/identity/host.hpp"
#include "gateway/identity/routes.hpp"
#include "http/head.hpp"

namespace once::gateway {

// Why a request is refused whose method or path (`normal` is its normal form) a backend may take for one that another
// route is for. nullopt: it is not.
std::optional<Problem> route_evaded(const Routes& routes, const RoutedPolicy& routed, const http::RequestHead& head,
                                    std::string_view normal);

// Why a request of a trusted proxy is refused whose Forwarded cannot be read: the host that its key is bound to would
// be another one for a reader that is less strict. nullopt: it can, or it does not count.
std::optional<Problem> unreadable_forwarded(const http::RequestHead& head, PeerTrust peer);

// Why a request is refused whose target is a URL of another scheme than that of the connection it came on (RFC 9110
// 7.4). A trusted proxy may have taken it off TLS. nullopt: it is not.
std::optional<Problem> misdirected(const http::RequestHead& head, bool secure, PeerTrust peer);

// Fields that a route relies on beside those that every request may have.
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

// Why a request is refused whose Connection names a field that says what the request is, whose it is or where it came
// from: Once would drop it on the way, after it has believed it. nullopt: it does not.
std::optional<Problem> field_dropped(const http::RequestHead& head, const NamedFields& named);

// For servers that join fields that came twice, with commas (CGI, WSGI): takes those apart again that a route relies
// on, so that two keys or two callers are refused as ever. A value with a comma of its own counts as two: nobody can
// tell. Only Authorization has parameters between commas, which stay together.
void separate_joined(http::RequestHead& head, const NamedFields& named);

// Takes fields out of the head that a backend may take for others: those that differ only in _ and - from one that
// Once or a backend relies on, and, unless a trusted proxy sent them, those that say that another URL is meant.
void drop_disguised(http::RequestHead& head, const NamedFields& named, PeerTrust peer);

}  // namespace once::gateway
