// Computes which operation a request would be, for operators who have the request: it is parsed, routed and identified
// like one from a connection.
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
  std::string target;  // a path, optionally with a query, or a URL
  std::string host{};  // empty: taken from the headers or the URL
  std::vector<std::pair<std::string, std::string>> headers{};
  // the value of the key header; absent: taken from the headers, or derived by the route
  std::optional<std::string> key{};
  std::string body{};  // for derived keys
  // Other facts that may identify the caller.
  std::string peer{};
  std::string tls_subject{};
  std::string tls_issuer{};
};

// The error says what is wrong with the request; it contains neither key nor credential.
std::expected<OperationId, std::string> operation_of(const ServingSettings& settings, const Routes& routes,
                                                     const OperationIds& ids, const AskedRequest& asked,
                                                     const Clock& clock);

}  // namespace once::gateway
