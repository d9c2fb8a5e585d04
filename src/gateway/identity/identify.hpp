// Which operation is this request? The one answer for connections, for shadow mode and for operators who look a key up:
// head, peer and body go in, and out come route, key, caller, operation id and fingerprint, or the problem to answer
// with. No socket, no store: everything here is computed from its arguments.
//
// In order: route_request(), find_request_key(), then a RequestIdentity. Its caller is checked before the body is read;
// the id and the fingerprint need the body.
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

// What requests are identified by: the settings and routes of one generation, and the installation's secret.
struct IdentityRules {
  const ServingSettings& settings;
  const Routes& routes;
  const OperationIds& ids;
  TokenCache* tokens;  // null: no route reads tokens
  const Clock& clock;  // read only when a token has to be checked
};

// A request as it came in: its head, and what the connection knows about the sender.
struct RequestFacts {
  http::RequestHead& head;
  std::string_view peer;  // numeric address, or http::unix_peer
  PeerTrust trust = PeerTrust::client;
  Origin::Transport transport = Origin::Transport::plain;
  std::string_view tls_subject = {};  // of the verified client certificate; empty: none
  std::string_view tls_issuer = {};
  bool fields_joined = false;             // by the server, where the client sent them twice: separate_joined()
  std::string_view verified_caller = {};  // CallerFacts::verified
};

struct RoutedRequest {
  RoutedPolicy route;
  std::string_view path;           // in normal form: in the head, or in the scratch string that was given
  std::optional<Problem> refused;  // a backend could take the request for another one
};

// Finds the route and refuses what could get around it (evasion.hpp). Removes fields from the head that a backend could
// take for others.
RoutedRequest route_request(const IdentityRules& rules, const RequestFacts& facts, std::string& scratch);

// The key of a request, as far as its head says.
struct RequestKey {
  enum class Kind : std::uint8_t {
    not_covered,  // there is no route, or the route does not honour keys on this method
    none,         // the route covers the request, which has no key and needs none
    given,        // by the route's key header
    derived,      // to be made from the body: the route has key.derive
    refused,      // missing where the route requires one, or invalid
  };
  Kind kind;
  bool ignored = false;  // not_covered: there is a key all the same
  std::optional<Key> given = std::nullopt;
  std::optional<Problem> problem = std::nullopt;
};

// `policy` is that of the route; null: no route.
RequestKey find_request_key(const Policy* policy, const http::RequestHead& head);

// A request on a route that covers it. Holds views of what it was made from and of itself.
class RequestIdentity {
 public:
  RequestIdentity(const IdentityRules& rules, const RequestFacts& facts, const Policy& policy);

  // Why the request is not served for the sake of its caller. nullopt: it is.
  std::optional<Problem> caller_problem() const;
  // The route does not insist on a caller, and there is none.
  bool is_anonymous() const { return scope_.missing() != nullptr; }
  // The parts that say who asks; empty if any of them is missing.
  std::span<const std::string_view> caller() const { return scope_.caller(); }
  const AskedHost& host() const { return scope_.host(); }

  // The operation, once the body is here. The problem: no key can be derived from it.
  std::expected<OperationId, Problem> operation(const std::optional<Key>& given, std::string_view body) const;
  Fingerprint fingerprint(std::string_view body) const;
  // Of a body that is not in memory. `length`: if it is known before the body comes.
  LargeFingerprint large_fingerprint(std::optional<std::uint64_t> length) const;
  // The network whose quota (limits.address) a new key is charged to. nullopt: none, because the caller is proven or
  // nothing is limited.
  std::optional<TenantTag> limited_address() const;
  // Who competes with others for the room of a store that evicts (Op::holder) and for the memory of readers: a proven
  // caller, or an address.
  TenantTag holder(TenantMemo& memo) const;

 private:
  // The network of a caller that is not proven. nullopt: it is, or it is somebody on this machine.
  std::optional<TenantTag> unproven_address() const;

  IdentityRules rules_;
  RequestFacts facts_;
  const Policy& policy_;
  ScopeParts scope_;
};

// The tag of a caller, as operators see it; empty if nothing says who asks. Good until the memo's next use.
std::string_view tenant_of(std::span<const std::string_view> caller, const OperationIds& ids, TenantMemo& memo);

}  // namespace once::gateway
