// SHA-256 and HMAC-SHA-256 as plain values. OpenSSL's low-level functions are used on purpose: a context is a
// copyable struct, so a keyed HMAC starts from two saved states and a digest allocates nothing. The EVP interface
// looks the algorithm up and allocates on every call, which is most of the cost of hashing a small request.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <openssl/sha.h>

#include "base/layers.hpp"

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"

namespace once::base {

using Digest = std::array<std::uint8_t, 32>;

class Sha256 {
 public:
  Sha256() { SHA256_Init(&context_); }

  void update(std::string_view bytes) { SHA256_Update(&context_, bytes.data(), bytes.size()); }
  // Hashes the length first, so that ("ab", "c") and ("a", "bc") differ.
  void update_part(std::string_view part);
  // The same for a part that is not in memory as a whole: hashes its length; update() with its bytes follows.
  void begin_part(std::uint64_t size);
  Digest digest();

 private:
  SHA256_CTX context_;
};

class HmacSha256 {
 public:
  explicit HmacSha256(std::string_view secret);

  // A running HMAC; start as many as needed from one secret.
  class Stream {
   public:
    void update(std::string_view bytes) { inner_.update(bytes); }
    void update_part(std::string_view part) { inner_.update_part(part); }
    Digest digest();

   private:
    friend class HmacSha256;
    Stream(const Sha256& inner, const Sha256& outer) : inner_(inner), outer_(outer) {}
    Sha256 inner_;
    Sha256 outer_;
  };

  Stream start() const { return {inner_, outer_}; }

 private:
  Sha256 inner_;
  Sha256 outer_;
};

}  // namespace once::base

#pragma clang diagnostic pop
