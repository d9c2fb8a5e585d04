// Who asks, and what that makes of scope, key and nonce. Everything that keeps tenants apart is here: the operation id
// holds the tenant, and so does the nonce of a claim, so that a handle is of no use to anybody else.
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

  // By the request's token; without any tokens everybody is `local`. nullopt: none, or nobody's. It takes the same time
  // whichever token it is, and however much of it is right.
  std::optional<std::string_view> of(const http::RequestHead& head) const;

 private:
  struct Known {
    std::string tenant;
    Digest digest;  // of the token
  };
  std::vector<Known> known_;
};

// What a key is: chosen by the client, or the canonical form of the inputs of the work.
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

  // The owner that a client's nonce makes: the same for the same.
  Nonce owner(std::string_view tenant, const OperationId& id, const Nonce& given) const;

  // hex(id).hex(nonce), as in Idempotency-Claim.
  static std::string text_of(const ClaimHandle& handle);
  // nullopt: no handle, or not one of this tenant.
  std::optional<ClaimHandle> read(std::string_view tenant, std::string_view text) const;

 private:
  using Half = std::array<std::uint8_t, Nonce::size / 2>;
  Half proof(std::string_view tenant, const OperationId& id, const Half& first) const;

  HmacSha256 hmac_;
  OperationIds ids_;
};

}  // namespace once::claims
