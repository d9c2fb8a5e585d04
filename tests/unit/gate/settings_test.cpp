// Which configurations a gate takes: the gateway's, without its sockets, and without what it cannot do.
#include "gate/settings.hpp"

#include <optional>
#include <string>
#include <string_view>

#include <gmock/gmock.h>

#include "tests/unit/gate/gate_world.hpp"

namespace once::gate::settings_test {

using testing::HasSubstr;

const auto no_variables = [](std::string_view) { return std::optional<std::string>(); };

class GateSettingsTest : public GateTest {
 protected:
  std::string mistakes_in(const std::string& text) const {
    Options given = options();
    given.config_text = text;
    const auto read = read_settings(given, no_variables);
    return read ? "" : read.error();
  }
};

TEST_F(GateSettingsTest, file_of_a_gateway_is_taken_without_its_sockets) {
  EXPECT_EQ(mistakes_in("listen: 0.0.0.0:80\n"
                        "admin: 0.0.0.0:81\n"
                        "tls: {listen: '0.0.0.0:443', certificates: [/nowhere/cert.pem]}\n"
                        "audit_log: /nowhere/audit\n"
                        "upstreams: {a: 'https://a.example', b: 'http://b.example'}\n"
                        "routes:\n"
                        "  - {path: /b/**, upstream: b, caller_missing: reject}\n"
                        "  - {path: /**, caller_missing: reject}\n"),
            "");
}

TEST_F(GateSettingsTest, upstreams_need_not_be_there) {
  EXPECT_EQ(mistakes_in("routes: [{path: /b/**, upstream: b}, {path: /**}]\n"), "");
}

TEST_F(GateSettingsTest, production_asks_for_what_it_asks_of_a_gateway) {
  EXPECT_THAT(mistakes_in("environment: production\n"), HasSubstr("secret"));
}

TEST_F(GateSettingsTest, what_only_a_gateway_can_do_is_refused) {
  EXPECT_THAT(mistakes_in("routes: [{path: /a, mode: shadow}]\n"), HasSubstr("mode: shadow works in the gateway only"));
  EXPECT_THAT(mistakes_in("routes: [{path: /a, conditional: {if_match: on}}]\n"), HasSubstr("conditional works"));
  EXPECT_THAT(mistakes_in("routes: [{path: /a, conditional: {etag: on}}]\n"), HasSubstr("conditional works"));
  EXPECT_THAT(mistakes_in("routes: [{path: /a, scope: [path, life]}]\n"), HasSubstr("scope: life works"));
}

TEST_F(GateSettingsTest, every_mistake_has_its_line) {
  const std::string mistakes = mistakes_in("lese: 1s\nlogg: x\n");
  EXPECT_THAT(mistakes, HasSubstr("\"lese\""));
  EXPECT_THAT(mistakes, HasSubstr("\n"));
  EXPECT_THAT(mistakes, HasSubstr("\"logg\""));
}

TEST_F(GateSettingsTest, cors_is_left_to_the_framework) {
  Options given = options();
  given.config_text = "routes: [{path: /a, cors: {origins: ['https://a.example']}}]\n";
  const auto read = read_settings(given, no_variables);
  ASSERT_TRUE(read.has_value()) << read.error();
  EXPECT_THAT(read->warnings, testing::ElementsAre(HasSubstr("cors.origins has no effect in a gate")));
}

TEST_F(GateSettingsTest, what_a_gateway_warns_about_is_warned_about) {
  Options given = options();
  given.config_text = "routes: [{path: /**, scope: [path]}]\n";
  const auto read = read_settings(given, no_variables);
  ASSERT_TRUE(read.has_value()) << read.error();
  EXPECT_THAT(read->warnings, testing::Contains(HasSubstr("caller")));
}

TEST_F(GateSettingsTest, file_and_text_together_are_a_mistake) {
  EXPECT_FALSE(read_settings({.config_file = "a", .config_text = "b"}, no_variables).has_value());
}

}  // namespace once::gate::settings_test
