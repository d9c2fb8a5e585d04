// The caller of a request and the scope of its key: the parts that make up the operation id.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/jwt.hpp"
#include "core/policy.hpp"
#include "core/problem.hpp"
#include "gateway/identity/host.hpp"
#include "gateway/identity/token_cache.hpp"
#include "http/address_set.hpp"
#include "http/head.hpp"

namespace once::gateway {

// The most sources of a caller's identity; the configuration enforces it.
inline constexpr std::size_t max_caller_sources = 8;
inline constexpr std::size_t max_scope_headers = 4;

// The inputs of a scope besides the request's head; of the caller, only what the route's sources need is filled in.
struct CallerFacts {
  const HostNames* hosts = nullptr;  // null: every host is different
  PeerTrust trust = PeerTrust::client;
  std::string_view peer = {};                         // ClientIo::peer
  std::string_view tls_subject = {};                  // empty: no verified certificate
  std::string_view tls_issuer = {};                   // its issuer
  const http::AddressSet* trusted_proxies = nullptr;  // null: none
  // after the scheme Bearer in Authorization, alone in any other header
  std::string_view token_header = "Authorization";
  TokenCache* tokens = nullptr;  // set if a route uses tokens
  Time now = {};
  // The caller as verified by the program around a gate: replaces the route's sources. Empty: not set.
  std::string_view verified = {};
};

// Holds views of the head, the facts and itself.
class ScopeParts {
 public:
  ScopeParts(const Policy& policy, const http::RequestHead& head, const CallerFacts& facts = {});
  ScopeParts(const ScopeParts&) = delete;
  ScopeParts& operator=(const ScopeParts&) = delete;

  std::span<const std::string_view> parts() const { return std::span(parts_).first(count_); }
  const AskedHost& host() const { return host_; }
  // The parts that identify the caller; empty if a source is missing, because a partial identity is none.
  std::span<const std::string_view> caller() const {
    return std::span(parts_).subspan(caller_begin_, missing_ == nullptr ? caller_count_ : 0);
  }

  // A caller's header or cookie that occurs twice. Backends differ in which one they use, and a wrong guess could give
  // one caller's response to another. Null if there is none.
  const CallerSource* ambiguous() const { return ambiguous_; }
  // The same for the route's scope_headers; empty if there is none.
  std::string_view repeated() const { return repeated_; }
  // A source that is absent or empty in the request. Null if there is none.
  const CallerSource* missing() const { return missing_; }
  // The scheme of an Authorization header that is a signature: a retry has another one. Empty if there is none.
  std::string_view signed_by() const { return signed_by_; }
  // Whether the program around a gate has set the caller.
  bool verified() const { return verified_; }
  // Set if there is a token and it is invalid.
  std::optional<TokenFault> token_fault() const { return token_fault_; }

 private:
  void add(std::string_view part) { parts_[count_++] = part; }
  void add_caller(const Policy& policy, const http::RequestHead& head, const CallerFacts& facts);
  void add_verified(const Policy& policy, std::string_view caller);
  void add_source(const CallerSource& source, std::string_view value);
  void add_header(std::string_view name, const http::RequestHead& head);
  void add_claim(const CallerSource& source, const http::RequestHead& head, const CallerFacts& facts);
  void read_token(const CallerSource& source, const http::RequestHead& head, const CallerFacts& facts);

  // The most parts. Host and each scope part have a mark and values. A caller has a mark and, for each source, its
  // kind, whether it is present, and its value, preceded by the issuer of a claim or a certificate. A scope header has
  // as many. Shadow mode adds a mark.
  std::array<std::string_view, 5 * max_caller_sources + 4 * max_scope_headers + 12> parts_;
  AskedHost host_;
  std::size_t count_ = 0;
  std::size_t caller_begin_ = 0;
  std::size_t caller_count_ = 0;
  bool verified_ = false;
  const CallerSource* ambiguous_ = nullptr;
  std::string_view repeated_;
  std::string_view signed_by_;
  const CallerSource* missing_ = nullptr;
  bool token_read_ = false;
  std::shared_ptr<const VerifiedToken> token_;
  std::optional<TokenFault> token_fault_;
  std::string client_ip_;
};

// The problem if a request with a key is refused because of its caller. nullopt: it is served.
std::optional<Problem> caller_problem(const Policy& policy, const ScopeParts& scope, std::string_view token_header);

// The client's address, taken through trusted proxies; see http::client_address().
std::optional<http::IpAddress> client_address(const http::RequestHead& head, std::string_view peer,
                                              const http::AddressSet& trusted_proxies);

// Whether the caller was authenticated: by a signature, a certificate or a trusted proxy. Any client can send a new
// header or cookie with every request.
bool is_proven(const Policy& policy, const ScopeParts& scope);

// The values of one source in a request.
struct FoundSource {
  std::size_t count = 0;
  std::string_view value;  // the last one
};

// Adds the cookies of that name in a Cookie header to `found`.
void find_cookie(std::string_view header, std::string_view name, FoundSource& found);

// The credentials after the scheme Bearer. nullopt: another scheme, or none.
std::optional<std::string_view> bearer_token(std::string_view authorization);

}  // namespace once::gateway
