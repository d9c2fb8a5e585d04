#include "core/json_pointer.hpp"

#include <gtest/gtest.h>

namespace once::core::json_pointer_test {

using Tokens = std::vector<std::string>;

TEST(JsonPointer, tokens_are_unescaped_in_one_pass) {
  EXPECT_EQ(pointer_tokens(""), Tokens{});
  EXPECT_EQ(pointer_tokens("/"), Tokens{""});
  EXPECT_EQ(pointer_tokens("/a/b"), (Tokens{"a", "b"}));
  EXPECT_EQ(pointer_tokens("/a//"), (Tokens{"a", "", ""}));
  EXPECT_EQ(pointer_tokens("/~01/~10"), (Tokens{"~1", "/0"}));
}

TEST(JsonPointer, what_is_no_pointer) {
  for (const char* text : {"a", "#/a", "/~", "/a~", "/~2", " /a"}) EXPECT_FALSE(is_json_pointer(text)) << text;
  EXPECT_TRUE(is_json_pointer(""));
  EXPECT_TRUE(is_json_pointer("/a~0~1"));
}

TEST(JsonPointer, a_set_follows_the_way_in_and_out) {
  auto set = PointerSet::make(Tokens{"", "/a", "/a/b", "/b"});
  ASSERT_TRUE(set);
  EXPECT_TRUE(set->leads_here(0));
  set->enter("a");
  EXPECT_TRUE(set->leads_here(1));
  EXPECT_FALSE(set->leads_here(0));
  set->enter("a");
  EXPECT_FALSE(set->any_leads_here());
  set->enter("b");  // /a/a/b: the pointer was lost one step before
  EXPECT_FALSE(set->any_leads_here());
  set->leave();
  set->leave();
  set->enter("b");
  EXPECT_TRUE(set->leads_here(2));
  EXPECT_FALSE(set->leads_here(3));
  set->leave();
  set->leave();
  set->enter("b");
  EXPECT_TRUE(set->leads_here(3));
}

TEST(JsonPointer, a_way_once_lost_is_not_found_again_below) {
  auto set = PointerSet::make(Tokens{"/a/b"});
  ASSERT_TRUE(set);
  set->enter("x");
  for (int i = 0; i < 2; ++i) {
    set->enter("b");
    EXPECT_FALSE(set->any_leads_here());
    set->leave();
  }
}

}  // namespace once::core::json_pointer_test
