#include "core/operation.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

namespace once::core {

namespace {

constexpr std::string_view operation_domain = "once operation 1";
constexpr std::string_view tenant_domain = "once tenant 1";

}  // namespace

OperationId OperationIds::make(std::span<const std::string_view> scope_parts, std::string_view key) const {
  // The count comes first, so that the boundary between scope and key is hashed.
  std::array<char, 8> count{};
  for (std::size_t i = 0; i < count.size(); ++i) count[i] = static_cast<char>(scope_parts.size() >> (8 * i));

  HmacSha256::Stream stream = hmac_.start();
  stream.update_part(operation_domain);
  stream.update_part({count.data(), count.size()});
  for (const std::string_view part : scope_parts) stream.update_part(part);
  stream.update_part(key);
  return {stream.digest()};
}

TenantTag OperationIds::tenant(std::span<const std::string_view> caller_parts) const {
  HmacSha256::Stream stream = hmac_.start();
  stream.update_part(tenant_domain);
  for (const std::string_view part : caller_parts) stream.update_part(part);
  const OperationId whole{stream.digest()};
  TenantTag tag{};
  const std::string hex = to_hex(whole.view().substr(0, tag.size() / 2));
  std::ranges::copy(hex, tag.begin());
  return tag;
}

}  // namespace once::core
