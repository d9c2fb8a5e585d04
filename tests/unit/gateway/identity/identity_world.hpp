// Settings, routes and requests for tests of the identity of a request.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/dialect.hpp"
#include "gateway/identity/identify.hpp"
#include "gateway/identity/routes.hpp"
#include "tests/unit/support/manual_clock.hpp"

namespace once::gateway {

class IdentityWorld {
 public:
  IdentityWorld() { settings.upstreams = {Upstream{.name = "backend", .servers = {}, .base_path = {}, .where = {}}}; }

  static Policy ietf() { return *dialect("ietf"); }

  Policy& route(std::string path, const Policy& policy = ietf()) {
    settings.routes.push_back(Route{.path = std::move(path),
                                    .hosts = {},
                                    .methods = std::nullopt,
                                    .upstream = "backend",
                                    .strip_prefix = {},
                                    .policy = policy,
                                    .where = {}});
    return settings.routes.back().policy;
  }

  // With the routes as they are now.
  IdentityRules rules() {
    routes.emplace(settings.routes, settings.upstreams);
    return {.settings = settings, .routes = *routes, .ids = ids, .tokens = tokens, .clock = clock};
  }

  RequestFacts request(const std::string& line, const std::string& fields = "") {
    text = line + " HTTP/1.1\r\nHost: api.test\r\n" + fields + "\r\n";
    EXPECT_EQ(http::parse(text, http::HeadLimits(), head).parsed, http::Parsed::complete) << text;
    return {.head = head, .peer = "203.0.113.9"};
  }

  ServingSettings settings;
  std::optional<Routes> routes;
  OperationIds ids{"secret"};
  TokenCache* tokens = nullptr;
  ManualClock clock;
  std::string text;
  http::RequestHead head;
  std::string scratch;
};

}  // namespace once::gateway
