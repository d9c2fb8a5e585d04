#include "core/operation.hpp"

#include <array>
#include <cstddef>

namespace once {

namespace {

constexpr std::string_view domain = "once operation 1";

}  // namespace

OperationId OperationIds::make(std::span<const std::string_view> scope_parts, std::string_view key) const {
  // With the count in front, where the scope ends and the key begins is part of what is hashed.
  std::array<char, 8> count{};
  for (std::size_t i = 0; i < count.size(); ++i) count[i] = static_cast<char>(scope_parts.size() >> (8 * i));

  HmacSha256::Stream stream = hmac_.start();
  stream.update_part(domain);
  stream.update_part({count.data(), count.size()});
  for (const std::string_view part : scope_parts) stream.update_part(part);
  stream.update_part(key);
  return {stream.finish()};
}

}  // namespace once
