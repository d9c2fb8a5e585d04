// Key files: what is in them decides, and what cannot be used is said with the name of the file.
#include "config/jwt_keys.hpp"

#include <sys/stat.h>

#include <fstream>

#include <gmock/gmock.h>

#include "config/settings.hpp"
#include "tests/unit/support/temporary_folder.hpp"
#include "tests/unit/support/token_signer.hpp"

namespace once::config::jwt_keys_test {

using testing::HasSubstr;

class ConfigJwtKeys : public testing::Test {
 protected:
  ConfigJwtKeys() {
    Route route;
    route.policy.caller = {{.kind = CallerSource::Kind::jwt, .name = "sub"},
                           {.kind = CallerSource::Kind::header, .name = "X"},
                           {.kind = CallerSource::Kind::jwt, .name = "/org/id"}};
    config_.routes = {route, route};
  }

  std::string file(const std::string& name, const std::string& content, mode_t mode = 0600) {
    std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << content;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }

  std::string error() {
    const auto made = make_verifier(config_, warnings_);
    return made ? "" : made.error();
  }

  TemporaryFolder folder_;
  Config config_ = builtin_config();
  ConfigErrors warnings_;
};

TEST_F(ConfigJwtKeys, without_keys_there_is_no_verifier) {
  const auto made = make_verifier(config_, warnings_);
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(*made, nullptr);
}

TEST_F(ConfigJwtKeys, pem_key_sets_and_secrets_together) {
  const Signer ec = Signer::ec();
  const Signer ed = Signer::ed25519();
  config_.jwt.keys = {
      file("a.json", ec.public_pem() + ed.public_pem()),
      file("b.pem", R"( {"keys":[{"kty":"oct","k":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZXg"}]})", 0644)};
  config_.jwt.secrets = {file("c", std::string(test_secret) + "\n")};
  const auto made = make_verifier(config_, warnings_);
  ASSERT_TRUE(made.has_value()) << made.error();
  const Time now = Time(std::chrono::seconds(1'700'000'000));
  constexpr std::string_view payload = R"({"exp":1700000600,"sub":"a","org":{"id":"b"}})";
  for (const std::string& token :
       {token_of(ec, R"({"alg":"ES256"})", payload), token_of(ed, R"({"alg":"EdDSA"})", payload), hs256_token(payload),
        hs256_token(payload, R"({"alg":"HS256"})", "0123456789abcdef0123456789abcdex")}) {
    const auto verified = (*made)->verify(token, now);
    ASSERT_TRUE(verified.has_value()) << describe(verified.error());
    EXPECT_EQ((*verified)->claims, (std::vector<std::optional<std::string>>{"\"a\"", "\"b\""}));
  }
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0].text, HasSubstr("other users can read the secret in " + folder_.path() + "/b.pem"));
}

TEST_F(ConfigJwtKeys, what_cannot_be_used_is_said) {
  const auto keys_error = [&](const std::string& content) {
    config_.jwt.keys = {file("k", content)};
    return error();
  };
  const std::string name = folder_.path() + "/k";
  EXPECT_EQ(keys_error("hello"),
            "jwt.keys: " + name + " is neither a PEM public key (-----BEGIN PUBLIC KEY-----) nor a JSON Web Key Set");
  EXPECT_EQ(keys_error(Signer::rsa(1024).public_pem()),
            "jwt.keys: " + name + " has a PEM block that is an RSA key of 1024 bits, 2048 to 8192 are accepted");
  EXPECT_EQ(keys_error(Signer::ec().private_pem()),
            "jwt.keys: " + name + " has a PEM block that is a private key; use the public key");
  EXPECT_THAT(keys_error(R"({"keys":[]})"), HasSubstr("jwt.keys: " + name + " has no key for verifying signatures"));
  EXPECT_THAT(keys_error(std::string(2U << 20U, 'x')), HasSubstr("it is larger than 1048576 bytes"));
  config_.jwt.keys = {"/nowhere/at/all"};
  EXPECT_EQ(error(), "jwt.keys: cannot read /nowhere/at/all: No such file or directory");
  std::string many;
  const std::string one = Signer::ed25519().public_pem();
  for (std::size_t i = 0; i <= max_jwt_keys; ++i) many += one;
  EXPECT_EQ(keys_error(many), "jwt.keys: at most 64 keys in all files, got 65");
}

TEST_F(ConfigJwtKeys, a_public_key_is_never_taken_for_a_secret) {
  for (const std::string& content :
       {Signer::ec().public_pem(), std::string(R"({"keys":[]}                              )")}) {
    config_.jwt.secrets = {file("s", content)};
    EXPECT_THAT(error(), HasSubstr("is a key, not a secret; it belongs in jwt.keys"));
  }
  config_.jwt.secrets = {file("s", std::string(31, 'x'))};
  EXPECT_THAT(error(), HasSubstr("has 31 bytes, at least 32 are needed"));
}

}  // namespace once::config::jwt_keys_test
