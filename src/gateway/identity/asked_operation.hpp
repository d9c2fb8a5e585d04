// Which operation a request would be, for an operator who has the request at hand: parsed, routed and identified as one
// that comes in on a connection.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "core/operation.hpp"
#include "gateway/identity/routes.hpp"
#include "gateway/settings.hpp"

namespace once::gateway {

struct AskedRequest {
  std::string method = "POST";
  std::string target;  // path and perhaps a query, or a URL
  std::string host{};  // empty: in the headers, or in the URL
  std::vector<std::pair<std::string, std::string>> headers{};
  std::optional<std::string> key{};  // as the key header has it; none: in the headers, or derived as the route says
  std::string body{};                // for derived keys
  // What else a caller may be known by.
  std::string peer{};
  std::string tls_subject{};
  std::string tls_issuer{};
};

// The error says what is wrong with the request, and holds neither key nor credential.
std::expected<OperationId, std::string> operation_of(const ServingSettings& settings, const Routes& routes,
                                                     const OperationIds& ids, const AskedRequest& asked,
                                                     const Clock& clock);

}  // namespace once::gateway
