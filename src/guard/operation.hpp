// What a request to a guard asks of the store: its id, its fingerprint and its terms. The ids are those of the claims
// API: a program that uses one and a program that uses the other meet at the same operation.
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

  // A claim without its nonce, which views the request. The error is for people, and never holds a key or an input.
  std::expected<Op, std::string> read(const Request& request) const;

 private:
  std::expected<OperationId, std::string> id_of(const Request& request) const;

  HmacSha256 hmac_;
  OperationIds ids_;
};

// The canonical form of the inputs; nothing if they have none.
std::optional<std::string> canonical(const Inputs& inputs);

// hex(id).hex(nonce), as in Idempotency-Claim.
std::string handle_of(const OperationId& id, const Nonce& nonce);

}  // namespace once::guard
