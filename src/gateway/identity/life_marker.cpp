#include "gateway/identity/life_marker.hpp"

#include <array>

namespace once::gateway {

OperationId life_marker(const OperationIds& ids, const AskedHost& host, std::string_view resource) {
  const auto& [asked, x_forwarded, forwarded] = host.parts();
  const std::array<std::string_view, 5> parts = {"life", asked, x_forwarded, forwarded, resource};
  return ids.make(parts, "");
}

}  // namespace once::gateway
