#include "base/sha256.hpp"

#include <cstring>
#include <string>

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"

namespace once::base {

namespace {

constexpr std::size_t block_size = 64;
constexpr std::size_t length_size = 8;  // of the length before a part

void write_length(char* out, std::uint64_t size) {
  for (std::size_t i = 0; i < length_size; ++i) out[i] = static_cast<char>(size >> (56 - 8 * i));
}

std::string_view as_view(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string padded_key(std::string_view secret, char pad) {
  std::string block(block_size, '\0');
  if (secret.size() > block_size) {
    Sha256 hash;
    hash.update(secret);
    const Digest digest = hash.digest();
    std::memcpy(block.data(), digest.data(), digest.size());
  } else {
    std::memcpy(block.data(), secret.data(), secret.size());
  }
  for (char& c : block) c = static_cast<char>(c ^ pad);
  return block;
}

}  // namespace

void Sha256::update_part(std::string_view part) {
  // Hash length and part in one call if both fit: a call costs more than the bytes of a short part.
  std::array<char, 128> joined;
  write_length(joined.data(), part.size());
  const bool fits = part.size() <= joined.size() - length_size;
  if (fits && !part.empty()) std::memcpy(joined.data() + length_size, part.data(), part.size());
  update(std::string_view(joined.data(), length_size + (fits ? part.size() : 0)));
  if (!fits) update(part);
}

void Sha256::begin_part(std::uint64_t size) {
  std::array<char, length_size> length;
  write_length(length.data(), size);
  update({length.data(), length.size()});
}

Digest Sha256::digest() {
  Digest digest{};
  SHA256_Final(digest.data(), &context_);
  return digest;
}

HmacSha256::HmacSha256(std::string_view secret) {
  inner_.update(padded_key(secret, 0x36));
  outer_.update(padded_key(secret, 0x5c));
}

Digest HmacSha256::Stream::digest() {
  const Digest inner = inner_.digest();
  outer_.update(as_view(inner));
  return outer_.digest();
}

}  // namespace once::base

#pragma clang diagnostic pop
