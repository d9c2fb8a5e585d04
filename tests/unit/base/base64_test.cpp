#include "base/base64.hpp"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace once::base::base64_test {

TEST(Base64Url, bytes_have_one_spelling) {
  EXPECT_EQ(from_base64url(""), "");
  EXPECT_EQ(from_base64url("AA"), std::string(1, '\0'));
  EXPECT_EQ(from_base64url("-_8"), "\xfb\xff");
  for (const std::string_view bad : {"A", "AAAAA", "AB", "AAB", "AA==", "A A", "AA\n", "+/8", "AA.", "\xc3\xa4"}) {
    EXPECT_EQ(from_base64url(bad), std::nullopt) << bad;
  }
  std::string all;
  for (int i = 0; i < 256; ++i) {
    all += static_cast<char>(i);
    EXPECT_EQ(from_base64url(to_base64url(all)), all);
  }
}

TEST(Base64, the_vectors_of_rfc_4648) {
  EXPECT_EQ(to_base64(""), "");
  EXPECT_EQ(to_base64("f"), "Zg==");
  EXPECT_EQ(to_base64("fo"), "Zm8=");
  EXPECT_EQ(to_base64("foo"), "Zm9v");
  EXPECT_EQ(to_base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(to_base64("\xfb\xff"), "+/8=");
}

TEST(Base64, bytes_have_one_spelling_and_its_padding) {
  for (const std::string_view bad :
       {"A", "AA", "AAA", "AA=", "A===", "====", "AB==", "AAB=", "AA==AA==", "-_8=", "AA =", "AA==\n"}) {
    EXPECT_EQ(from_base64(bad), std::nullopt) << bad;
  }
  std::string all;
  for (int i = 0; i < 256; ++i) {
    all += static_cast<char>(i);
    EXPECT_EQ(from_base64(to_base64(all)), all);
  }
}

}  // namespace once::base::base64_test
