// The operation of a request to a guard: its id, fingerprint and terms. Ids are the same as in the claims API, so that
// a program that uses the library and one that uses the API share operations.
#pragma once

#include <expected>
#include <string>

#include <once/guard.hpp>

#include "base/sha256.hpp"
#include "core/operation.hpp"
#include "store/store.hpp"

namespace once::guard {

class Operations {
 public:
  explicit Operations(std::string_view secret) : hmac_(secret), ids_(secret) {}

  // A claim without its nonce; it has views of the request. The error text never contains a key or an input.
  std::expected<Op, std::string> read(const Request& request) const;

 private:
  std::expected<OperationId, std::string> id_of(const Request& request) const;

  HmacSha256 hmac_;
  OperationIds ids_;
};

// The canonical form of the inputs; nullopt if they are invalid.
std::optional<std::string> canonical(const Inputs& inputs);

// hex(id).hex(nonce), as in Idempotency-Claim.
std::string handle_of(const OperationId& id, const Nonce& nonce);

}  // namespace once::guard
