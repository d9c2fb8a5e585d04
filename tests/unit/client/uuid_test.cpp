#include "client/uuid.hpp"

#include <regex>
#include <set>

#include <gtest/gtest.h>

namespace once::client::uuid_test {

class Same final : public Random {
 public:
  explicit Same(std::uint8_t byte) : byte_(byte) {}
  void fill(std::span<std::uint8_t> out) override { std::ranges::fill(out, byte_); }

 private:
  std::uint8_t byte_;
};

// RFC 9562's own example of version 7: 2022-02-22 19:22:22 GMT.
constexpr Time example{Duration(0x017F22E279B0)};

TEST(ClientKey, version_and_variant_stand_where_the_rfc_puts_them) {
  Same zeros(0x00);
  Same ones(0xFF);
  EXPECT_EQ(make_key(KeyForm::uuid_v4, example, zeros), "00000000-0000-4000-8000-000000000000");
  EXPECT_EQ(make_key(KeyForm::uuid_v4, example, ones), "ffffffff-ffff-4fff-bfff-ffffffffffff");
  EXPECT_EQ(make_key(KeyForm::uuid_v7, example, zeros), "017f22e2-79b0-7000-8000-000000000000");
  EXPECT_EQ(make_key(KeyForm::uuid_v7, example, ones), "017f22e2-79b0-7fff-bfff-ffffffffffff");
}

TEST(ClientKey, thousands_are_all_different_and_well_formed) {
  const std::regex form("[0-9a-f]{8}-[0-9a-f]{4}-[47][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}");
  SystemRandom random;
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    for (const KeyForm kind : {KeyForm::uuid_v4, KeyForm::uuid_v7}) {
      const std::string key = make_key(kind, example, random);
      EXPECT_TRUE(std::regex_match(key, form)) << key;
      EXPECT_TRUE(seen.insert(key).second) << key;
    }
  }
}

TEST(ClientKey, version_7_sorts_by_time) {
  SystemRandom random;
  EXPECT_LT(make_key(KeyForm::uuid_v7, example, random), make_key(KeyForm::uuid_v7, example + Duration(1), random));
}

}  // namespace once::client::uuid_test
