#include <gtest/gtest.h>

#include "config/load.hpp"

namespace once::config::variables_test {

std::optional<std::string> environ(std::string_view name) {
  if (name == "HOST") return "db.internal";
  if (name == "PASSWORD") return "hunter2hunter2";
  if (name == "TTL") return "48h";
  if (name == "TRICK") return "x\nadmin: off";
  if (name == "EMPTY") return "";
  return std::nullopt;
}

std::expected<Config, ConfigErrors> parsed(std::string_view text, std::span<const Override> overrides = {}) {
  return parse(text, "once.yaml", overrides, environ);
}

std::string errors_of(std::string_view text, std::span<const Override> overrides = {}) {
  const auto config = parsed(text, overrides);
  std::string all;
  if (config) return all;
  for (const ConfigError& error : config.error()) all += to_string(error) + "\n";
  return all;
}

TEST(ConfigVariables, are_replaced_in_every_value) {
  const auto config = parsed(R"(
store: postgres://once:${PASSWORD}@${HOST}/once
defaults: {ttl: "${TTL}", cors: {origins: ["https://${HOST}"]}}
upstreams: {a: "http://${HOST}:9000", b: {servers: ["http://${HOST}"]}}
)");
  ASSERT_TRUE(config) << to_string(config.error().at(0));
  EXPECT_EQ(config->store, "postgres://once:hunter2hunter2@db.internal/once");
  EXPECT_EQ(config->defaults.ttl, std::chrono::hours(48));
  EXPECT_EQ(config->defaults.cors.origins, std::vector<std::string>{"https://db.internal"});
  EXPECT_EQ(config->upstreams.at(0).servers.at(0).host, "db.internal");
  EXPECT_EQ(config->upstreams.at(1).servers.at(0).host, "db.internal");
}

TEST(ConfigVariables, are_replaced_on_the_command_line) {
  const Override overrides[] = {{"--upstream", "upstreams.default", "http://${HOST}"},
                                {"--set defaults.ttl", "defaults.ttl", "${TTL}"}};
  const auto config = parsed("", overrides);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->upstreams.at(0).servers.at(0).host, "db.internal");
  EXPECT_EQ(config->defaults.ttl, std::chrono::hours(48));
}

TEST(ConfigVariables, one_that_is_not_set_is_a_mistake_with_its_place) {
  EXPECT_EQ(errors_of("listen: a:1\nupstreams:\n  a: http://${BACKEND}/x"),
            "once.yaml:3:6: the environment variable BACKEND is not set\n");
  const Override overrides[] = {{"--store", "store", "redis://${NOWHERE}"}};
  EXPECT_EQ(errors_of("", overrides), "--store: the environment variable NOWHERE is not set\n");
}

TEST(ConfigVariables, anything_else_in_braces_is_a_mistake) {
  for (const std::string text : {"${}", "${A-B}", "${HOST:-x}", "${HOST", "${1}", "${ HOST }"}) {
    EXPECT_TRUE(
        errors_of("errors_base: \"" + text + "\"").contains("once.yaml:1:14: ${ must be followed by the name of"))
        << text;
  }
}

TEST(ConfigVariables, other_dollars_stand_for_themselves) {
  const auto config = parsed("errors_base: $HOST$$x$${HOST}$");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->errors_base, "$HOST$$x${HOST}$");
}

TEST(ConfigVariables, cannot_change_the_structure_of_a_file) {
  EXPECT_EQ(errors_of("listen: ${TRICK}"),
            "once.yaml:1:9: listen: expected an address such as 127.0.0.1:8080 or [::1]:8080, or off; the value "
            "contains ${TRICK} and is not shown\n");
  EXPECT_EQ(errors_of("${HOST}: x"), "once.yaml:1:1: unknown setting \"${HOST}\"\n");
}

TEST(ConfigVariables, a_value_that_may_be_a_secret_is_never_shown) {
  const Override overrides[] = {{"--set a", "defaults.ttl", "${PASSWORD}"},
                                {"--set b", "upstreams.u.queue", "${PASSWORD}"},
                                {"--upstream", "upstreams.default", "${PASSWORD}"},
                                {"--set c", "log.level", "${PASSWORD}"}};
  const std::string errors = errors_of(R"(
listen: ${PASSWORD}
threads: ${PASSWORD}
store: ${PASSWORD}
trusted_proxies: [10.0.0.1, "${PASSWORD}"]
upstreams: {u: http://u, a: "${PASSWORD}", b: {servers: ["${PASSWORD}"], queue: "${PASSWORD}"}}
claims: {tokens: {x: "${EMPTY}"}}
defaults: {dialect: "${PASSWORD}", caller: ["${PASSWORD}", "${PASSWORD}"]}
routes: [{path: "${PASSWORD}", methods: ["${PASSWORD}"], record: {statuses: ["${PASSWORD}"]}}]
)",
                                       overrides);
  EXPECT_FALSE(errors.contains("hunter2")) << errors;
  EXPECT_TRUE(errors.contains("threads: expected auto or a whole number, 1 to 256; the value")) << errors;
  EXPECT_TRUE(errors.contains("claims.tokens.x: the value is not valid; it contains ${EMPTY} and is not shown"))
      << errors;
  EXPECT_EQ(std::ranges::count(errors, '\n'), 17) << errors;
}

}  // namespace once::config::variables_test
