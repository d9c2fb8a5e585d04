// Keys that check signatures: the vectors of the RFCs, and everything that only looks like a signature.
#include "base/signature.hpp"

#include <gmock/gmock.h>

#include "base/base64.hpp"
#include "tests/unit/support/token_signer.hpp"

namespace once::base::signature_test {

using testing::HasSubstr;

std::string decoded(std::string_view text) {
  const auto bytes = from_base64url(text);
  EXPECT_TRUE(bytes.has_value()) << text;
  return bytes.value_or("");
}

// RFC 7515, appendix A.2 and A.3: the payload is the same.
constexpr std::string_view payload =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";

TEST(SignatureKey, rfc_7515_a1_hmac_sha_256) {
  const auto key = SignatureKey::secret(
      decoded("AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"));
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(key->algorithm(), SignatureAlgorithm::hs256);
  const std::string message = std::string("eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.").append(payload);
  EXPECT_TRUE(key->verifies(message, decoded("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")));
  EXPECT_FALSE(key->verifies(message + "x", decoded("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")));
  const std::string whole = decoded("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
  EXPECT_FALSE(key->verifies(message, whole.substr(0, 31)));
  EXPECT_FALSE(key->verifies(message, ""));
  EXPECT_FALSE(key->verifies(message, whole + whole));
}

TEST(SignatureKey, rfc_7515_a2_rsa) {
  const auto key = SignatureKey::rsa(
      decoded("ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-"
              "SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-"
              "UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2et"
              "hFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"),
      decoded("AQAB"));
  ASSERT_TRUE(key.has_value()) << key.error();
  EXPECT_EQ(key->algorithm(), SignatureAlgorithm::rs256);
  const std::string message = std::string("eyJhbGciOiJSUzI1NiJ9.").append(payload);
  EXPECT_TRUE(key->verifies(
      message,
      decoded("cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJd"
              "bF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN93"
              "83LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhW"
              "kWywlVmtVrBp0igcN_IoypGlUPQGe77Rw")));
}

TEST(SignatureKey, rfc_7515_a3_ecdsa_takes_the_two_numbers_and_not_der) {
  const auto key = SignatureKey::p256(decoded("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"),
                                      decoded("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"));
  ASSERT_TRUE(key.has_value()) << key.error();
  EXPECT_EQ(key->algorithm(), SignatureAlgorithm::es256);
  const std::string message = std::string("eyJhbGciOiJFUzI1NiJ9.").append(payload);
  const std::string raw =
      decoded("DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q");
  EXPECT_TRUE(key->verifies(message, raw));
  EXPECT_FALSE(key->verifies(message, raw + '\0'));
  EXPECT_FALSE(key->verifies(message, '\0' + raw));
  EXPECT_FALSE(key->verifies(message, raw.substr(0, 63)));
  EXPECT_FALSE(key->verifies(message, std::string(64, '\0')));
  EXPECT_FALSE(key->verifies(message, ""));

  const Signer signer = Signer::ec();
  EXPECT_TRUE(signer.public_key().verifies("m", signer.sign_raw("m")));
  EXPECT_FALSE(signer.public_key().verifies("m", signer.sign("m")));
}

TEST(SignatureKey, rfc_8037_a4_ed25519) {
  const auto key = SignatureKey::ed25519(decoded("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"));
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(key->algorithm(), SignatureAlgorithm::eddsa);
  const std::string_view message = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
  const std::string signature =
      decoded("hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg");
  EXPECT_TRUE(key->verifies(message, signature));
  EXPECT_FALSE(key->verifies(message, signature + "x"));
  EXPECT_FALSE(key->verifies("other", signature));
}

TEST(SignatureKey, pem_keys_know_their_algorithm) {
  EXPECT_EQ(Signer::rsa().public_key().algorithm(), SignatureAlgorithm::rs256);
  EXPECT_EQ(Signer::ec().public_key().algorithm(), SignatureAlgorithm::es256);
  EXPECT_EQ(Signer::ed25519().public_key().algorithm(), SignatureAlgorithm::eddsa);
  const auto both = SignatureKey::all_of_pem(Signer::ec().public_pem() + "\n" + Signer::ed25519().public_pem());
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(both->size(), 2U);
}

TEST(SignatureKey, what_is_no_key_says_why) {
  const auto why = [](const std::string& pem) {
    const auto keys = SignatureKey::all_of_pem(pem);
    return keys ? "a key" : keys.error();
  };
  EXPECT_THAT(why(Signer::rsa(1024).public_pem()), HasSubstr("an RSA key of 1024 bits, 2048 to 8192 are accepted"));
  EXPECT_THAT(why(Signer::ec("P-384").public_pem()), HasSubstr("another curve than P-256"));
  EXPECT_THAT(why(Signer::ec().private_pem()), HasSubstr("a private key; use the public key"));
  EXPECT_THAT(why("-----BEGIN CERTIFICATE-----\n"), HasSubstr("is no \"-----BEGIN PUBLIC KEY-----\""));
  EXPECT_THAT(why("nothing"), HasSubstr("is no \"-----BEGIN PUBLIC KEY-----\""));
  EXPECT_THAT(why("-----BEGIN PUBLIC KEY-----\nAAAA\n"), HasSubstr("is cut off"));
  EXPECT_THAT(why("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"), HasSubstr("is not valid"));
  EXPECT_FALSE(SignatureKey::secret(std::string(31, 'x')).has_value());
  EXPECT_TRUE(SignatureKey::secret(std::string(32, 'x')).has_value());
  EXPECT_FALSE(SignatureKey::rsa("", "").has_value());
  EXPECT_FALSE(SignatureKey::rsa(std::string(256, '\xff'), "\x02").has_value());
  EXPECT_FALSE(SignatureKey::rsa(std::string(2000, '\xff'), "\x03").has_value());
  EXPECT_FALSE(SignatureKey::p256(std::string(32, '\x01'), std::string(32, '\x01')).has_value());
  EXPECT_FALSE(SignatureKey::p256("x", "y").has_value());
  EXPECT_FALSE(SignatureKey::ed25519("x").has_value());
}

}  // namespace once::base::signature_test
