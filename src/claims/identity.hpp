// Tenants, and how they enter operation ids and nonces. All separation of tenants is here: the operation id contains
// the tenant, and so does the nonce of a claim, so that a handle works only for its tenant.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/sha256.hpp"
#include "claims/settings.hpp"
#include "core/operation.hpp"
#include "http/head.hpp"

namespace once::claims {

class Tenants {
 public:
  explicit Tenants(const std::vector<ClaimsToken>& tokens);

  // The tenant of the request's token; `local` if no tokens are configured. nullopt: no token, or an unknown one. Takes
  // constant time, whichever token matches and however much of it is right.
  std::optional<std::string_view> of(const http::RequestHead& head) const;

 private:
  struct Known {
    std::string tenant;
    Digest digest;  // of the token
  };
  std::vector<Known> known_;
};

// The kind of a key: chosen by the client, or the canonical form of the work's inputs.
enum class KeyKind : bool { given, inputs };

struct ClaimHandle {
  OperationId id;
  Nonce nonce;
};

class Identities {
 public:
  explicit Identities(std::string_view secret) : hmac_(secret), ids_(secret) {}

  OperationId operation(std::string_view tenant, std::string_view scope, KeyKind kind, std::string_view key) const;
  Fingerprint fingerprint(std::string_view canonical) const;

  // The nonce of a claim, derived from the client's nonce: equal for equal ones.
  Nonce owner(std::string_view tenant, const OperationId& id, const Nonce& given) const;

  // hex(id).hex(nonce), as in Idempotency-Claim.
  static std::string text_of(const ClaimHandle& handle);
  // nullopt: it is no handle, or not of this tenant.
  std::optional<ClaimHandle> read(std::string_view tenant, std::string_view text) const;

 private:
  using Half = std::array<std::uint8_t, Nonce::size / 2>;
  Half proof(std::string_view tenant, const OperationId& id, const Half& first) const;

  HmacSha256 hmac_;
  OperationIds ids_;
};

}  // namespace once::claims
