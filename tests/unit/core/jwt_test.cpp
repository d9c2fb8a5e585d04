// Tokens: which are taken, and why each of the others is not.
#include "core/jwt.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/jwks.hpp"
#include "tests/unit/support/token_signer.hpp"

namespace once::core::jwt_test {

using std::chrono::seconds;

const Time now = Time(seconds(1'700'000'000));

// "taken", or why not.
std::string outcome(const JwtVerifier& verifier, std::string_view token, Time at = now) {
  const auto verified = verifier.verify(token, at);
  return std::string(verified ? "taken" : describe(verified.error()));
}

std::string why(TokenFault fault) {
  return std::string(describe(fault));
}

JwtKey secret_key(std::string id = "") {
  return {.key = *SignatureKey::secret(test_secret), .id = std::move(id)};
}

JwtKey key_of(const Signer& signer, std::string id = "") {
  return {.key = signer.public_key(), .id = std::move(id)};
}

JwtVerifier of_secret(JwtRules rules = {}, std::vector<std::string> claims = {"sub"}) {
  return {{secret_key()}, std::move(rules), std::move(claims)};
}

constexpr std::string_view good = R"({"sub":"alice","exp":1700000600})";

TEST(Jwt, a_token_of_every_algorithm_is_taken_and_says_who_it_is) {
  const Signer rsa = Signer::rsa();
  const Signer ec = Signer::ec();
  const Signer ed = Signer::ed25519();
  const JwtVerifier verifier({key_of(rsa), key_of(ec), key_of(ed), secret_key()}, {}, {"sub"});
  for (const std::string& token : {token_of(rsa, R"({"alg":"RS256"})", good), token_of(ec, R"({"alg":"ES256"})", good),
                                   token_of(ed, R"({"alg":"EdDSA","typ":"JWT"})", good), hs256_token(good)}) {
    const auto verified = verifier.verify(token, now);
    ASSERT_TRUE(verified.has_value()) << describe(verified.error());
    EXPECT_EQ((*verified)->claims.at(0), "\"alice\"");
    EXPECT_EQ((*verified)->until, Time(seconds(1'700'000'630)));
  }
}

TEST(Jwt, the_example_of_rfc_7515) {
  const std::string key =
      *from_base64url("AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow");
  const JwtVerifier verifier({{.key = *SignatureKey::secret(key), .id = ""}}, {.issuer = "joe"}, {"iss"});
  const std::string_view token =
      "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9."
      "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
      "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
  EXPECT_EQ(outcome(verifier, token, Time(seconds(1'300'819'379))), "taken");
  EXPECT_EQ(outcome(verifier, token), why(TokenFault::expired));
}

TEST(Jwt, none_is_no_algorithm) {
  const JwtVerifier verifier = of_secret();
  for (const std::string_view alg : {"none", "None", "NONE", "nOnE", "", "HS512", "hs256"}) {
    const std::string header = R"({"alg":")" + std::string(alg) + "\"}";
    EXPECT_EQ(outcome(verifier, signed_part(header, good) + "."), why(TokenFault::wrong_algorithm)) << alg;
    EXPECT_EQ(outcome(verifier, hs256_token(good, header)), why(TokenFault::wrong_algorithm)) << alg;
  }
  EXPECT_EQ(outcome(verifier, signed_part(R"({"alg":"HS256"})", good) + "."), why(TokenFault::bad_signature));
}

TEST(Jwt, a_public_key_is_never_a_secret) {
  const Signer rsa = Signer::rsa();
  const std::string pem = rsa.public_pem();
  const std::string forged = hs256_token(good, R"({"alg":"HS256"})", pem);
  EXPECT_EQ(outcome(JwtVerifier({key_of(rsa)}, {}, {}), forged), why(TokenFault::wrong_algorithm));
  EXPECT_EQ(outcome(JwtVerifier({key_of(rsa, "k")}, {}, {}), hs256_token(good, R"({"alg":"HS256","kid":"k"})", pem)),
            why(TokenFault::wrong_algorithm));
  // With a secret beside it the signature is checked with that, and with nothing else.
  EXPECT_EQ(outcome(JwtVerifier({key_of(rsa), secret_key()}, {}, {}), forged), why(TokenFault::bad_signature));
}

TEST(Jwt, a_signature_of_another_key_or_form_does_not_match) {
  const Signer ec = Signer::ec();
  const JwtVerifier verifier({key_of(ec)}, {}, {});
  const std::string text = signed_part(R"({"alg":"ES256"})", good);
  EXPECT_EQ(outcome(verifier, text + "." + to_base64url(ec.sign_raw(text))), "taken");
  EXPECT_EQ(outcome(verifier, text + "." + to_base64url(ec.sign(text))), why(TokenFault::bad_signature));
  EXPECT_EQ(outcome(verifier, token_of(Signer::ec(), R"({"alg":"ES256"})", good)), why(TokenFault::bad_signature));
  EXPECT_EQ(outcome(verifier, token_of(Signer::ed25519(), R"({"alg":"ES256"})", good)), why(TokenFault::bad_signature));
}

TEST(Jwt, a_token_is_checked_with_the_key_it_names) {
  const Signer one = Signer::ec();
  const Signer two = Signer::ec();
  const JwtVerifier named({key_of(one, "1"), key_of(two, "2")}, {}, {});
  EXPECT_EQ(outcome(named, token_of(two, R"({"alg":"ES256","kid":"2"})", good)), "taken");
  EXPECT_EQ(outcome(named, token_of(two, R"({"alg":"ES256"})", good)), "taken");
  EXPECT_EQ(outcome(named, token_of(two, R"({"alg":"ES256","kid":"1"})", good)), why(TokenFault::bad_signature));
  EXPECT_EQ(outcome(named, token_of(two, R"({"alg":"ES256","kid":"3"})", good)), why(TokenFault::unknown_key));
  EXPECT_EQ(outcome(named, token_of(two, R"({"alg":"EdDSA","kid":"2"})", good)), why(TokenFault::wrong_algorithm));
  EXPECT_EQ(outcome(named, token_of(two, R"({"alg":"ES256","kid":7})", good)), why(TokenFault::bad_header));
  // Keys in PEM have no name.
  const JwtVerifier mixed({key_of(one, "1"), key_of(two)}, {}, {});
  EXPECT_EQ(outcome(mixed, token_of(two, R"({"alg":"ES256","kid":"any"})", good)), "taken");
  EXPECT_EQ(outcome(mixed, token_of(one, R"({"alg":"ES256","kid":"any"})", good)), why(TokenFault::bad_signature));
}

TEST(Jwt, a_token_is_tried_with_few_keys) {
  std::vector<Signer> signers;
  std::vector<JwtKey> keys;
  for (std::size_t i = 0; i <= max_tried_keys; ++i) {
    signers.push_back(Signer::ec());
    keys.push_back(key_of(signers.back(), std::to_string(i)));
  }
  const JwtVerifier named(keys, {}, {});
  EXPECT_EQ(outcome(named, token_of(signers[max_tried_keys - 1], R"({"alg":"ES256"})", good)), "taken");
  EXPECT_EQ(outcome(named, token_of(signers[max_tried_keys], R"({"alg":"ES256"})", good)),
            why(TokenFault::bad_signature));
  EXPECT_EQ(outcome(named, token_of(signers[max_tried_keys], R"({"alg":"ES256","kid":"4"})", good)), "taken");
  // A key without a name is tried first, wherever it stands.
  const Signer nameless = Signer::ec();
  keys.push_back(key_of(nameless));
  EXPECT_EQ(outcome(JwtVerifier(keys, {}, {}), token_of(nameless, R"({"alg":"ES256"})", good)), "taken");
}

TEST(Jwt, what_is_no_token) {
  const JwtVerifier verifier = of_secret();
  const std::string token = hs256_token(good);
  const std::size_t first = token.find('.');
  const std::size_t second = token.rfind('.');
  EXPECT_EQ(outcome(verifier, token), "taken");
  for (const std::string& bad :
       {std::string(), std::string("."), std::string("x"), token.substr(0, second), token + ".", token + ".e30",
        token + "=", token + " ", " " + token, token.substr(0, first) + "=" + token.substr(first),
        token.substr(0, second) + "\n" + token.substr(second), std::string("..x")}) {
    EXPECT_EQ(outcome(verifier, bad), why(TokenFault::malformed)) << bad;
  }
  EXPECT_EQ(outcome(verifier, ".."), why(TokenFault::bad_header));
  EXPECT_EQ(outcome(verifier, token.substr(0, second + 1)), why(TokenFault::bad_signature));
  EXPECT_EQ(outcome(verifier, std::string(max_token_bytes + 1, 'A')), why(TokenFault::too_large));
  for (const std::string_view header :
       {"", "{}", "[]", "null", R"("HS256")", R"({"alg":null})", R"({"alg":"HS256","alg":"HS256"})",
        R"({"alg":"HS256","x":{"a":1,"a":2}})", R"({"alg":"HS256"} x)", R"({"alg":"HS256",})", R"({"Alg":"HS256"})"}) {
    EXPECT_EQ(outcome(verifier, hs256_token(good, header)), why(TokenFault::bad_header)) << header;
  }
  EXPECT_EQ(outcome(verifier, hs256_token(good, R"({"alg":"HS256","crit":["b64"],"b64":false})")),
            why(TokenFault::critical));
  EXPECT_EQ(outcome(verifier, hs256_token(good, R"({"alg":"HS256","crit":[]})")), why(TokenFault::critical));
}

// The last letter of a part may have bits that belong to no byte: these are 0.
TEST(Jwt, a_token_has_one_spelling) {
  const JwtVerifier verifier = of_secret();
  const std::string token = hs256_token(good);
  // 32 bytes are 43 letters, of which the last has two such bits.
  for (const char last : std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")) {
    std::string other = token;
    other.back() = last;
    EXPECT_EQ(outcome(verifier, other) == "taken", other == token) << last;
  }
}

TEST(Jwt, payloads_that_say_nothing_reliable) {
  const JwtVerifier verifier = of_secret();
  for (const std::string_view payload :
       {"", "[]", "1", "{", R"({"exp":1700000600,"exp":1800000000})", R"({"exp":1700000600,"sub":"a","sub":"b"})",
        R"({"exp":1700000600,"x":[{"a":1,"a":1}]})", R"({"exp":"1700000600"})", R"({"exp":null})",
        R"({"exp":1700000600,"nbf":"0"})", R"({"exp":1700000600,"iat":true})", R"({"exp":1700000600,"iss":7})",
        "{\"exp\":1700000600,\"sub\":\"\\ud800\"}", "{\"exp\":1700000600,\"sub\":\"\xff\"}",
        R"({"exp":1e999999999999})"}) {
    EXPECT_EQ(outcome(verifier, hs256_token(payload)), why(TokenFault::bad_payload)) << payload;
  }
}

TEST(Jwt, times_are_checked_with_the_leeway) {
  const JwtVerifier verifier = of_secret({});
  const auto at = [&](std::string_view payload, int offset) {
    return outcome(verifier, hs256_token(payload), now + seconds(offset));
  };
  EXPECT_EQ(at(R"({"exp":1700000000})", 0), "taken");
  EXPECT_EQ(at(R"({"exp":1700000000})", 29), "taken");
  EXPECT_EQ(at(R"({"exp":1700000000})", 30), why(TokenFault::expired));
  EXPECT_EQ(at(R"({"exp":1700000000.5})", 30), "taken");
  EXPECT_EQ(at(R"({"exp":1.7e9})", 30), why(TokenFault::expired));
  EXPECT_EQ(at(R"({"exp":-1})", 0), why(TokenFault::expired));
  EXPECT_EQ(at(R"({"exp":1e300})", 0), "taken");
  EXPECT_EQ(at(R"({"exp":1800000000,"nbf":1700000030})", 0), "taken");
  EXPECT_EQ(at(R"({"exp":1800000000,"nbf":1700000031})", 0), why(TokenFault::not_yet_valid));
  EXPECT_EQ(at(R"({"exp":1800000000,"iat":1700000030})", 0), "taken");
  EXPECT_EQ(at(R"({"exp":1800000000,"iat":1700000031})", 0), why(TokenFault::issued_later));
  EXPECT_EQ(at(R"({"sub":"a"})", 0), why(TokenFault::no_expiry));
  EXPECT_EQ(outcome(of_secret({.expiry = Required::no}), hs256_token(R"({"sub":"a"})")), "taken");
}

TEST(Jwt, issuer_and_audience_if_they_are_asked_for) {
  const auto with = [](JwtRules rules, std::string_view claims) {
    return outcome(of_secret(std::move(rules)), hs256_token(R"({"exp":1800000000)" + std::string(claims) + "}"));
  };
  EXPECT_EQ(with({.issuer = "https://id.example"}, R"(,"iss":"https://id.example")"), "taken");
  EXPECT_EQ(with({.issuer = "https://id.example"}, R"(,"iss":"https://id.example/")"), why(TokenFault::wrong_issuer));
  EXPECT_EQ(with({.issuer = "https://id.example"}, ""), why(TokenFault::wrong_issuer));
  const JwtRules ours = {.audience = {"pay", "once"}};
  EXPECT_EQ(with(ours, R"(,"aud":"once")"), "taken");
  EXPECT_EQ(with(ours, R"(,"aud":["x","pay"])"), "taken");
  EXPECT_EQ(with(ours, R"(,"aud":["x"])"), why(TokenFault::wrong_audience));
  EXPECT_EQ(with(ours, R"(,"aud":[])"), why(TokenFault::wrong_audience));
  EXPECT_EQ(with(ours, R"(,"aud":[["pay"]])"), why(TokenFault::wrong_audience));
  EXPECT_EQ(with(ours, R"(,"aud":{"pay":1})"), why(TokenFault::wrong_audience));
  EXPECT_EQ(with(ours, ""), why(TokenFault::wrong_audience));
  EXPECT_EQ(with({}, R"(,"aud":"anybody")"), "taken");
}

TEST(Jwt, claims_by_name_and_by_pointer) {
  const JwtVerifier verifier =
      of_secret({}, {"sub", "https://example.com/org", "/org/id", "missing", "number", "nothing", "/sub/x"});
  const auto verified = verifier.verify(
      hs256_token(R"({"exp":1800000000,"sub":"al\u0069ce","https://example.com/org":"o","org":{"id":"7"},)"
                  R"("number":1.50,"nothing":null})"),
      now);
  ASSERT_TRUE(verified.has_value()) << describe(verified.error());
  const std::vector<std::optional<std::string>> expected = {"\"alice\"", "\"o\"",      "\"7\"",     std::nullopt,
                                                            "15e-1",     std::nullopt, std::nullopt};
  EXPECT_EQ((*verified)->claims, expected);
  EXPECT_EQ(verifier.index_of("/org/id"), 2U);
  EXPECT_EQ(verifier.index_of("org"), std::nullopt);
}

TEST(Jwt, a_claim_that_identifies_no_caller) {
  const JwtVerifier verifier = of_secret();
  for (const std::string& value : {std::string("true"), std::string("[]"), std::string("{}"), std::string(R"(["a"])"),
                                   "\"" + std::string(max_claim_bytes, 'a') + "\""}) {
    EXPECT_EQ(outcome(verifier, hs256_token(R"({"exp":1800000000,"sub":)" + value + "}")),
              why(TokenFault::unusable_claim))
        << value;
  }
}

TEST(Jwt, reasons_hold_nothing_of_a_token) {
  for (int fault = 0; fault <= static_cast<int>(TokenFault::unusable_claim); ++fault) {
    EXPECT_FALSE(describe(static_cast<TokenFault>(fault)).empty());
  }
}

// Every bit counts: no other text than the one that was signed is taken.
RC_GTEST_PROP(JwtProperty, a_token_with_a_bit_flipped_is_refused, ()) {
  static const Signer ec = Signer::ec();
  static const Signer ed = Signer::ed25519();
  static const Signer rsa = Signer::rsa();
  static const JwtVerifier verifier({key_of(ec), key_of(ed, "e"), key_of(rsa), secret_key("s")}, {}, {"sub"});
  static const std::vector<std::string> tokens = {
      token_of(ec, R"({"alg":"ES256"})", good), token_of(ed, R"({"alg":"EdDSA","kid":"e"})", good),
      token_of(rsa, R"({"alg":"RS256"})", good), hs256_token(good, R"({"alg":"HS256","kid":"s"})")};
  std::string token = *rc::gen::elementOf(tokens);
  RC_ASSERT(verifier.verify(token, now).has_value());
  const auto at = *rc::gen::inRange<std::size_t>(0, token.size());
  token[at] = static_cast<char>(token[at] ^ (1 << *rc::gen::inRange(0, 8)));
  RC_ASSERT(!verifier.verify(token, now).has_value());
}

RC_GTEST_PROP(JwtProperty, any_text_is_answered, (const std::string& text)) {
  static const JwtVerifier verifier = of_secret();
  RC_ASSERT(!verifier.verify(text, now).has_value());
  RC_ASSERT(!verifier.verify(to_base64url(text) + "." + to_base64url(text) + ".", now).has_value());
}

std::string error_of(std::string_view jwks) {
  const auto keys = parse_jwks(jwks);
  return keys ? "keys" : keys.error();
}

constexpr std::string_view ec_key =
    R"({"kty":"EC","crv":"P-256","kid":"a","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",)"
    R"("y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0")";

std::string set_of(std::initializer_list<std::string> keys) {
  std::string text = R"({"keys":[)";
  for (const std::string& key : keys) text += (text.back() == '[' ? "" : ",") + key;
  return text + "]}";
}

TEST(Jwks, keys_of_others_are_left_out) {
  const std::string ec = std::string(ec_key) + "}";
  const auto keys = parse_jwks(set_of(
      {R"({"kty":"future","x":1})", R"({"kty":"EC","crv":"P-521","x":"AA","y":"AA"})", "{}", "7",
       R"({"kty":"OKP","crv":"X25519","x":"AA"})", R"({"kty":"RSA","alg":"RSA-OAEP","n":"AA","e":"AA"})",
       R"({"kty":"RSA","use":"enc","n":"AA","e":"AA"})", R"({"kty":"RSA","key_ops":["encrypt"],"n":"AA","e":"AA"})",
       R"({"kty":"RSA","alg":"RS512","n":"AA","e":"AA"})", ec,
       R"({"kty":"OKP","crv":"Ed25519","use":"sig","alg":"EdDSA","key_ops":["verify"],)"
       R"("x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"})",
       R"({"kty":"oct","kid":"s","k":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"})"}));
  ASSERT_TRUE(keys.has_value()) << keys.error();
  ASSERT_EQ(keys->size(), 3U);
  EXPECT_EQ(keys->at(0).key.algorithm(), SignatureAlgorithm::es256);
  EXPECT_EQ(keys->at(0).id, "a");
  EXPECT_EQ(keys->at(1).key.algorithm(), SignatureAlgorithm::eddsa);
  EXPECT_EQ(keys->at(1).id, "");
  EXPECT_EQ(keys->at(2).key.algorithm(), SignatureAlgorithm::hs256);
  EXPECT_EQ(outcome(JwtVerifier(*keys, {}, {}), hs256_token(good, R"({"alg":"HS256","kid":"s"})")), "taken");
}

TEST(Jwks, mistakes_are_named) {
  constexpr std::string_view no_set =
      "is not a JSON Web Key Set: an object with an array \"keys\" and no duplicate members";
  for (const std::string_view bad : {"", "[]", "{}", R"({"keys":{}})", R"({"keys":[],"keys":[]})"}) {
    EXPECT_EQ(error_of(bad), no_set) << bad;
  }
  EXPECT_TRUE(error_of(set_of({})).starts_with("has no key for verifying signatures among its 0"));
  EXPECT_TRUE(error_of(set_of({R"({"kty":"x"})"})).starts_with("has no key for verifying signatures among its 1"));
  EXPECT_EQ(error_of(set_of({std::string(ec_key) + R"(,"d":"AA"})"})),
            "has an invalid key: number 1 is a private key; use the public key");
  EXPECT_EQ(error_of(set_of({R"({"kty":"x"})", R"({"kty":"EC","crv":"P-256","x":"AA","y":"AA"})"})),
            "has an invalid key: number 2 is not a point of P-256: x and y have 32 bytes each");
  EXPECT_EQ(error_of(set_of({R"({"kty":"oct","k":"c2hvcnQ"})"})),
            "has an invalid key: number 1 has 5 bytes, at least 32 are needed");
}

}  // namespace once::core::jwt_test
