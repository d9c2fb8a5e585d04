// Identifies a request, for connections, shadow mode and operators' lookups alike. Input: head, peer and body. Output:
// route, key, caller, operation id and fingerprint, or the problem to answer with. No socket and no store: everything
// is computed from the arguments.
//
// The order: route_request(), find_request_key(), then a RequestIdentity. Its caller is checked before the body is
// read; id and fingerprint need the body.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "core/key.hpp"
#include "core/large_fingerprint.hpp"
#include "core/operation.hpp"
#include "core/policy.hpp"
#include "core/problem.hpp"
#include "gateway/identity/host.hpp"
#include "gateway/identity/origin.hpp"
#include "gateway/identity/routes.hpp"
#include "gateway/identity/scope.hpp"
#include "gateway/identity/tenant_memo.hpp"
#include "gateway/identity/token_cache.hpp"
#include "gateway/settings.hpp"
#include "http/head.hpp"

namespace once::gateway {

// What identification depends on besides the request: settings and routes of one generation, and the installation's
// secret.
struct IdentityRules {
  const ServingSettings& settings;
  const Routes& routes;
  const OperationIds& ids;
  TokenCache* tokens;  // null: no route uses tokens
  const Clock& clock;  // used only to check tokens
};

// A request as received: its head, and what the connection knows about the sender.
struct RequestFacts {
  http::RequestHead& head;
  std::string_view peer;  // numeric address, or http::unix_peer
  PeerTrust trust = PeerTrust::client;
  Origin::Transport transport = Origin::Transport::plain;
  std::string_view tls_subject = {};  // of the verified client certificate; empty: none
  std::string_view tls_issuer = {};
  bool fields_joined = false;             // the server joined repeated fields: separate_joined()
  std::string_view verified_caller = {};  // CallerFacts::verified
};

struct RoutedRequest {
  RoutedPolicy route;
  std::string_view path;           // in normal form; a view of the head or of the given scratch string
  std::optional<Problem> refused;  // set if a backend could read the request differently
};

// Finds the route and refuses requests that could evade it (evasion.hpp). Removes fields that a backend could take for
// others.
RoutedRequest route_request(const IdentityRules& rules, const RequestFacts& facts, std::string& scratch);

// The key of a request, as far as its head shows.
struct RequestKey {
  enum class Kind : std::uint8_t {
    not_covered,  // no route, or the route does not honour keys for this method
    none,         // the route covers the request, which has no key and needs none
    given,        // in the route's key header
    derived,      // to be derived from the body: the route has key.derive
    refused,      // missing although the route requires one, or invalid
  };
  Kind kind;
  bool ignored = false;  // not_covered, but the request has a key
  std::optional<Key> given = std::nullopt;
  std::optional<Problem> problem = std::nullopt;
};

// `policy` is the route's; null: no route.
RequestKey find_request_key(const Policy* policy, const http::RequestHead& head);

// The identity of a request on a route that covers it. Holds views of its arguments and of itself.
class RequestIdentity {
 public:
  RequestIdentity(const IdentityRules& rules, const RequestFacts& facts, const Policy& policy);

  // The problem if the caller is missing, ambiguous or invalid. nullopt: the request is served.
  std::optional<Problem> caller_problem() const;
  // Whether there is no caller, on a route that does not require one.
  bool is_anonymous() const { return scope_.missing() != nullptr; }
  // The scope parts that identify the caller; empty if any of them is missing.
  std::span<const std::string_view> caller() const { return scope_.caller(); }
  const AskedHost& host() const { return scope_.host(); }

  // The operation, computed once the body is complete. The problem: no key can be derived from the body.
  std::expected<OperationId, Problem> operation(const std::optional<Key>& given, std::string_view body) const;
  Fingerprint fingerprint(std::string_view body) const;
  // For a body that is not in memory. `length` is set if it is known in advance.
  LargeFingerprint large_fingerprint(std::optional<std::uint64_t> length) const;
  // The network whose quota (limits.address) a new key is charged to. nullopt: none, because the caller is proven or
  // nothing is limited.
  std::optional<TenantTag> limited_address() const;
  // The tag that memory and the space of an evicting store are accounted to (Op::holder): a proven caller, or an
  // address.
  TenantTag holder(TenantMemo& memo) const;

 private:
  // The network of an unproven caller. nullopt: the caller is proven, or local.
  std::optional<TenantTag> unproven_address() const;

  IdentityRules rules_;
  RequestFacts facts_;
  const Policy& policy_;
  ScopeParts scope_;
};

// The caller's tag as shown to operators; empty if there is no caller. Valid until the next use of `memo`.
std::string_view tenant_of(std::span<const std::string_view> caller, const OperationIds& ids, TenantMemo& memo);

}  // namespace once::gateway
