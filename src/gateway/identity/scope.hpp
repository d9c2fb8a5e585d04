// Whose request it is and what its key is bound to: the parts that go into the operation id.
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

// Config allows this many sources of a caller's identity.
inline constexpr std::size_t max_caller_sources = 8;
inline constexpr std::size_t max_scope_headers = 4;

// What a scope is made of beside the head of the request; of the caller only what the route's sources need is filled
// in.
struct CallerFacts {
  const HostNames* hosts = nullptr;  // null: every host is another one
  PeerTrust trust = PeerTrust::client;
  std::string_view peer = {};                         // ClientIo::peer
  std::string_view tls_subject = {};                  // empty: no verified certificate
  std::string_view tls_issuer = {};                   // who vouches for it
  const http::AddressSet* trusted_proxies = nullptr;  // null: none
  std::string_view token_header = "Authorization";    // there behind the scheme Bearer, in any other the token alone
  TokenCache* tokens = nullptr;                       // there is one where a route reads tokens
  Time now = {};
  // Who asks, as the program around a gate has verified it: instead of the route's sources. Empty: nobody said.
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
  // Those that say who asks; empty if a source is missing: part of a caller is none.
  std::span<const std::string_view> caller() const {
    return std::span(parts_).subspan(caller_begin_, missing_ == nullptr ? caller_count_ : 0);
  }

  // A caller's header or cookie that is there twice: which one the backend believes is anyone's guess, and a guess
  // could hand one caller's answer to another. Null if there is none.
  const CallerSource* ambiguous() const { return ambiguous_; }
  // The same of one of the route's scope_headers; empty if there is none.
  std::string_view repeated() const { return repeated_; }
  // A source that says nothing, or an empty text. Null if there is none.
  const CallerSource* missing() const { return missing_; }
  // The scheme of an Authorization header that is a signature: a retry has another one. Empty if there is none.
  std::string_view signed_by() const { return signed_by_; }
  // The program around a gate has said who asks.
  bool verified() const { return verified_; }
  // There is a token, and it is not good.
  std::optional<TokenFault> token_fault() const { return token_fault_; }

 private:
  void add(std::string_view part) { parts_[count_++] = part; }
  void add_caller(const Policy& policy, const http::RequestHead& head, const CallerFacts& facts);
  void add_verified(const Policy& policy, std::string_view caller);
  void add_source(const CallerSource& source, std::string_view value);
  void add_header(std::string_view name, const http::RequestHead& head);
  void add_claim(const CallerSource& source, const http::RequestHead& head, const CallerFacts& facts);
  void read_token(const CallerSource& source, const http::RequestHead& head, const CallerFacts& facts);

  // Host and each scope part have a mark and their values; a caller has a mark, and for each source what it is, whether
  // it is there and its value, behind the issuer of a claim or a certificate. A header of the scope has as much. Shadow
  // mode adds a mark.
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

// Why a request with a key is not served for the sake of its caller. nullopt: it is.
std::optional<Problem> caller_problem(const Policy& policy, const ScopeParts& scope, std::string_view token_header);

// The address of whoever sent it, through trusted proxies; see http::client_address().
std::optional<http::IpAddress> client_address(const http::RequestHead& head, std::string_view peer,
                                              const http::AddressSet& trusted_proxies);

// Whether somebody checked who asks: a signature, a certificate, a proxy that is trusted. Anybody can send another
// header, or another cookie, with every request.
bool is_proven(const Policy& policy, const ScopeParts& scope);

// Values that a request has of one source.
struct FoundSource {
  std::size_t count = 0;
  std::string_view value;  // the last
};

// Cookies of that name in a Cookie header, added to what was found so far.
void find_cookie(std::string_view header, std::string_view name, FoundSource& found);

// What is behind the scheme Bearer. nullopt: another scheme, or none.
std::optional<std::string_view> bearer_token(std::string_view authorization);

}  // namespace once::gateway
