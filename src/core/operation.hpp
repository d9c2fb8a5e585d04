// The operation id: HMAC-SHA-256 of scope and key under the installation's secret. Two operations have the same id only
// if all their scope parts and keys are equal. Without the secret a key cannot be derived from its id. Ids are stored,
// and changing how they are made loses every key, so the domain tag carries a version.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "base/bytes.hpp"
#include "base/sha256.hpp"

namespace once::core {

// Identifies a caller in lists and tables without revealing its name: 16 hex digits.
using TenantTag = std::array<char, 16>;

class OperationIds {
 public:
  explicit OperationIds(std::string_view secret) : hmac_(secret) {}

  // Needs no allocation.
  OperationId make(std::span<const std::string_view> scope_parts, std::string_view key) const;
  TenantTag tenant(std::span<const std::string_view> caller_parts) const;

 private:
  HmacSha256 hmac_;
};

}  // namespace once::core
