#include "base/signature.hpp"

#include <array>
#include <utility>

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>

#include "base/bytes.hpp"

namespace once::base {

namespace {

// OpenSSL's objects, each freed by its own function.
template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
template <class T, auto Free>
using Owned = std::unique_ptr<T, Freed<Free>>;

using Number = Owned<BIGNUM, BN_free>;
using Input = Owned<BIO, BIO_free>;
using KeyContext = Owned<EVP_PKEY_CTX, EVP_PKEY_CTX_free>;
using DigestContext = Owned<EVP_MD_CTX, EVP_MD_CTX_free>;
using EcdsaSignature = Owned<ECDSA_SIG, ECDSA_SIG_free>;
using Parameters = Owned<OSSL_PARAM, OSSL_PARAM_free>;
using ParameterBuilder = Owned<OSSL_PARAM_BLD, OSSL_PARAM_BLD_free>;

constexpr std::size_t coordinate_size = 32;
constexpr std::size_t ed25519_size = 32;

Number number_of(std::string_view big_endian) {
  return Number(BN_bin2bn(bytes_of(big_endian), static_cast<int>(big_endian.size()), nullptr));
}

std::shared_ptr<EVP_PKEY> shared(EVP_PKEY* key) {
  return {key, [](EVP_PKEY* owned) { EVP_PKEY_free(owned); }};
}

// Clears OpenSSL's error queue on failure: the errors are not reported, and must not show up in a later call.
std::shared_ptr<EVP_PKEY> built(const char* type, OSSL_PARAM_BLD* builder) {
  const Parameters parameters(OSSL_PARAM_BLD_to_param(builder));
  const KeyContext context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  const bool made = parameters && context && EVP_PKEY_fromdata_init(context.get()) == 1 &&
                    EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, parameters.get()) == 1;
  ERR_clear_error();
  return made ? shared(key) : nullptr;
}

bool is_p256(EVP_PKEY* key) {
  std::array<char, 64> name{};
  std::size_t size = 0;
  if (EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, name.data(), name.size(), &size) != 1) {
    ERR_clear_error();
    return false;
  }
  const std::string_view group(name.data(), size);
  return group == SN_X9_62_prime256v1 || group == "P-256";
}

bool sound(EVP_PKEY* key) {
  const KeyContext context(EVP_PKEY_CTX_new_from_pkey(nullptr, key, nullptr));
  const bool good = context && EVP_PKEY_public_check(context.get()) == 1;
  ERR_clear_error();
  return good;
}

// A token has r and s of an ES256 signature side by side; OpenSSL expects DER.
std::optional<std::string> der_of(std::string_view raw) {
  if (raw.size() != 2 * coordinate_size) return std::nullopt;
  Number r = number_of(raw.substr(0, coordinate_size));
  Number s = number_of(raw.substr(coordinate_size));
  const EcdsaSignature signature(ECDSA_SIG_new());
  if (!r || !s || !signature) return std::nullopt;
  // The signature owns r and s from here on.
  if (ECDSA_SIG_set0(signature.get(), r.release(), s.release()) != 1) return std::nullopt;
  unsigned char* bytes = nullptr;
  const int size = i2d_ECDSA_SIG(signature.get(), &bytes);
  if (size <= 0) return std::nullopt;
  std::string der(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  OPENSSL_free(bytes);
  return der;
}

bool mac_verifies(const HmacSha256& key, std::string_view message, std::string_view signature) {
  HmacSha256::Stream stream = key.start();
  stream.update(message);
  const Digest expected = stream.digest();
  return signature.size() == expected.size() && CRYPTO_memcmp(signature.data(), expected.data(), expected.size()) == 0;
}

}  // namespace

std::string_view name_of(SignatureAlgorithm algorithm) {
  switch (algorithm) {
    case SignatureAlgorithm::hs256: return "HS256";
    case SignatureAlgorithm::rs256: return "RS256";
    case SignatureAlgorithm::es256: return "ES256";
    case SignatureAlgorithm::eddsa: return "EdDSA";
  }
  return "";
}

SignatureKey::Made SignatureKey::secret(std::string_view bytes) {
  if (bytes.size() < shortest_mac_secret) {
    return std::unexpected(fmt::format("has {} bytes, at least {} are needed", bytes.size(), shortest_mac_secret));
  }
  return SignatureKey(SignatureAlgorithm::hs256, HmacSha256(bytes));
}

SignatureKey::Made SignatureKey::rsa(std::string_view modulus, std::string_view exponent) {
  constexpr std::size_t most_bytes = most_rsa_bits / 8;
  if (modulus.empty() || exponent.empty() || modulus.size() > most_bytes || exponent.size() > most_bytes) {
    return std::unexpected(fmt::format("is not an RSA key of {} to {} bits", least_rsa_bits, most_rsa_bits));
  }
  const Number n = number_of(modulus);
  const Number e = number_of(exponent);
  const ParameterBuilder builder(OSSL_PARAM_BLD_new());
  if (!n || !e || !builder || OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get()) != 1) {
    return std::unexpected("is not valid");
  }
  return of_public(built("RSA", builder.get()));
}

SignatureKey::Made SignatureKey::p256(std::string_view x, std::string_view y) {
  if (x.size() != coordinate_size || y.size() != coordinate_size) {
    return std::unexpected("is not a point of P-256: x and y have 32 bytes each");
  }
  std::string point = "\x04";
  point.append(x).append(y);
  const ParameterBuilder builder(OSSL_PARAM_BLD_new());
  if (!builder ||
      OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, SN_X9_62_prime256v1, 0) != 1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size()) != 1) {
    return std::unexpected("is not valid");
  }
  return of_public(built("EC", builder.get()));
}

SignatureKey::Made SignatureKey::ed25519(std::string_view bytes) {
  if (bytes.size() != ed25519_size) return std::unexpected("is not an Ed25519 key: x has 32 bytes");
  return of_public(shared(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes_of(bytes), bytes.size())));
}

SignatureKey::Made SignatureKey::of_public(PublicKey key) {
  if (!key) return std::unexpected("is not valid");
  switch (EVP_PKEY_get_base_id(key.get())) {
    case EVP_PKEY_RSA: {
      const int bits = EVP_PKEY_get_bits(key.get());
      if (bits < least_rsa_bits || bits > most_rsa_bits) {
        return std::unexpected(
            fmt::format("is an RSA key of {} bits, {} to {} are accepted", bits, least_rsa_bits, most_rsa_bits));
      }
      if (!sound(key.get())) return std::unexpected("is not a valid RSA key");
      return SignatureKey(SignatureAlgorithm::rs256, std::move(key));
    }
    case EVP_PKEY_EC:
      if (!is_p256(key.get())) return std::unexpected("is on another curve than P-256");
      if (!sound(key.get())) return std::unexpected("is not a point of P-256");
      return SignatureKey(SignatureAlgorithm::es256, std::move(key));
    case EVP_PKEY_ED25519: return SignatureKey(SignatureAlgorithm::eddsa, std::move(key));
    default: return std::unexpected("is of a kind that is not supported: RSA, P-256 and Ed25519 are");
  }
}

std::expected<std::vector<SignatureKey>, std::string> SignatureKey::all_of_pem(std::string_view text) {
  constexpr std::string_view begin = "-----BEGIN ";
  constexpr std::string_view public_key = "-----BEGIN PUBLIC KEY-----";
  constexpr std::string_view end = "-----END PUBLIC KEY-----";
  std::vector<SignatureKey> keys;
  for (std::size_t at = text.find(begin); at != std::string_view::npos; at = text.find(begin, at)) {
    const std::string_view rest = text.substr(at);
    const std::string_view line = rest.substr(0, rest.find_first_of("\r\n"));
    if (line.contains("PRIVATE KEY")) return std::unexpected("is a private key; use the public key");
    if (!rest.starts_with(public_key)) return std::unexpected(fmt::format("is no \"{}\"", public_key));
    const std::size_t size = rest.find(end);
    if (size == std::string_view::npos) return std::unexpected("is cut off");
    const std::string_view block = rest.substr(0, size + end.size());
    const Input input(BIO_new_mem_buf(block.data(), static_cast<int>(block.size())));
    PublicKey key = shared(input ? PEM_read_bio_PUBKEY(input.get(), nullptr, nullptr, nullptr) : nullptr);
    ERR_clear_error();
    auto made = of_public(std::move(key));
    if (!made) return std::unexpected(made.error());
    keys.push_back(*std::move(made));
    at += block.size();
  }
  if (keys.empty()) return std::unexpected(fmt::format("is no \"{}\"", public_key));
  return keys;
}

bool SignatureKey::verifies(std::string_view message, std::string_view signature) const {
  if (const auto* mac = std::get_if<HmacSha256>(&key_)) return mac_verifies(*mac, message, signature);
  EVP_PKEY* const key = std::get<PublicKey>(key_).get();
  std::optional<std::string> der;
  if (algorithm_ == SignatureAlgorithm::es256) {
    der = der_of(signature);
    if (!der) return false;
    signature = *der;
  }
  // Ed25519 has its hash built in.
  const EVP_MD* const digest = algorithm_ == SignatureAlgorithm::eddsa ? nullptr : EVP_sha256();
  const DigestContext context(EVP_MD_CTX_new());
  const bool good =
      context && EVP_DigestVerifyInit(context.get(), nullptr, digest, nullptr, key) == 1 &&
      EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(), bytes_of(message), message.size()) == 1;
  ERR_clear_error();
  return good;
}

}  // namespace once::base
