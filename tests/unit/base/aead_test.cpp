#include "base/aead.hpp"

#include <gtest/gtest.h>

#include "base/bytes.hpp"

namespace once::base::aead_test {

Aead::Key key_of(std::uint8_t byte) {
  Aead::Key key{};
  key.fill(byte);
  return key;
}

std::string seal(const Aead& aead, std::string_view plain, std::string_view context = "id", std::uint8_t nonce = 1) {
  Aead::Nonce bytes{};
  bytes.fill(nonce);
  std::string out;
  aead.seal_into(out, plain, context, bytes);
  return out;
}

TEST(Aead, what_was_sealed_opens) {
  const Aead aead(key_of(1));
  for (const std::string& plain : {std::string(), std::string("x"), std::string(100'000, 'y')}) {
    const std::string sealed = seal(aead, plain);
    EXPECT_EQ(sealed.size(), plain.size() + Aead::overhead);
    EXPECT_EQ(aead.open(sealed, "id"), plain);
  }
}

TEST(Aead, is_what_others_call_aes_256_gcm) {
  // NIST's test case 14 of GCM: key and nonce of zeros, sixteen bytes of zeros.
  const std::string sealed = seal(Aead(key_of(0)), std::string(16, '\0'), "", 0);
  EXPECT_EQ(to_hex(std::string_view(sealed).substr(Aead::nonce_size)),
            "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919");
}

TEST(Aead, another_key_another_context_or_a_changed_bit_does_not_open) {
  const Aead aead(key_of(1));
  const std::string sealed = seal(aead, "a secret answer");
  EXPECT_FALSE(Aead(key_of(2)).open(sealed, "id").has_value());
  EXPECT_FALSE(aead.open(sealed, "it").has_value());
  for (std::size_t at = 0; at < sealed.size(); ++at) {
    std::string changed = sealed;
    changed[at] ^= 1;
    EXPECT_FALSE(aead.open(changed, "id").has_value()) << at;
    EXPECT_FALSE(aead.open(sealed.substr(0, at), "id").has_value()) << at;
  }
}

}  // namespace once::base::aead_test
