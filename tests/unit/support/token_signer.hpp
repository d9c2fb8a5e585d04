// Signs what the product only verifies: a key pair of each kind, and tokens made with it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>

#include "base/base64.hpp"
#include "base/signature.hpp"
#include "tests/unit/support/layers.hpp"

namespace once::support {

inline constexpr std::string_view test_secret = "0123456789abcdef0123456789abcdef";

inline std::string hmac_sha256(std::string_view secret, std::string_view message) {
  std::string result(32, '\0');
  unsigned size = 32;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(message.data()), message.size(),
       reinterpret_cast<unsigned char*>(result.data()), &size);
  return result;
}

class Signer {
 public:
  static Signer rsa(std::size_t bits = 2048) { return Signer(EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", bits)); }
  static Signer ec(const char* curve = "P-256") { return Signer(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", curve)); }
  static Signer ed25519() { return Signer(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")); }

  std::string public_pem() const {
    return pem([this](BIO* out) { PEM_write_bio_PUBKEY(out, key_.get()); });
  }
  std::string private_pem() const {
    return pem([this](BIO* out) { PEM_write_bio_PrivateKey(out, key_.get(), nullptr, nullptr, 0, nullptr, nullptr); });
  }
  SignatureKey public_key() const {
    auto keys = SignatureKey::all_of_pem(public_pem());
    EXPECT_TRUE(keys.has_value()) << keys.error();
    return keys->at(0);
  }

  // As OpenSSL makes it: DER for ECDSA.
  std::string sign(std::string_view message) const {
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
    const bool ed25519 = EVP_PKEY_get_base_id(key_.get()) == EVP_PKEY_ED25519;
    const auto* bytes = reinterpret_cast<const unsigned char*>(message.data());
    std::size_t size = 0;
    EVP_DigestSignInit(context.get(), nullptr, ed25519 ? nullptr : EVP_sha256(), nullptr, key_.get());
    EVP_DigestSign(context.get(), nullptr, &size, bytes, message.size());
    std::string signature(size, '\0');
    EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, bytes, message.size());
    signature.resize(size);
    return signature;
  }

  // As tokens have it: r and s side by side for ECDSA.
  std::string sign_raw(std::string_view message) const {
    const std::string der = sign(message);
    if (EVP_PKEY_get_base_id(key_.get()) != EVP_PKEY_EC) return der;
    const auto* at = reinterpret_cast<const unsigned char*>(der.data());
    const std::unique_ptr<ECDSA_SIG, decltype(&ECDSA_SIG_free)> parsed(
        d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size())), ECDSA_SIG_free);
    std::string raw(64, '\0');
    auto* out = reinterpret_cast<unsigned char*>(raw.data());
    BN_bn2binpad(ECDSA_SIG_get0_r(parsed.get()), out, 32);
    BN_bn2binpad(ECDSA_SIG_get0_s(parsed.get()), out + 32, 32);
    return raw;
  }

 private:
  explicit Signer(EVP_PKEY* key) : key_(key, EVP_PKEY_free) {}

  template <class Write>
  static std::string pem(Write write) {
    const std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), BIO_free);
    write(out.get());
    char* text = nullptr;
    const long size = BIO_get_mem_data(out.get(), &text);
    return {text, static_cast<std::size_t>(size)};
  }

  std::shared_ptr<EVP_PKEY> key_;
};

inline std::string signed_part(std::string_view header, std::string_view payload) {
  return to_base64url(header) + "." + to_base64url(payload);
}

inline std::string token_of(const Signer& signer, std::string_view header, std::string_view payload) {
  const std::string text = signed_part(header, payload);
  return text + "." + to_base64url(signer.sign_raw(text));
}

inline std::string hs256_token(std::string_view payload, std::string_view header = R"({"alg":"HS256"})",
                               std::string_view secret = test_secret) {
  const std::string text = signed_part(header, payload);
  return text + "." + to_base64url(hmac_sha256(secret, text));
}

}  // namespace once::support
