#include "core/json_tree.hpp"

#include <gtest/gtest.h>

#include "core/json_canonical.hpp"

namespace once::core::json_tree_test {

TEST(JsonTree, values_are_found_by_name_and_by_way) {
  const auto tree = JsonTree::parse(R"( {"a": "t\u00e4xt", "b": {"c": [1, -2.50, true, null]}, "": {}} )");
  ASSERT_TRUE(tree.has_value());
  EXPECT_EQ(*tree->find("a")->string(), "t\xc3\xa4xt");
  const JsonTree* list = tree->find(std::vector<std::string>{"b", "c"});
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(list->array()->size(), 4U);
  EXPECT_EQ(list->array()->at(1).number()->text, "-2.50");
  EXPECT_EQ(list->array()->at(1).number()->canonical, "-25e-1");
  EXPECT_TRUE(list->array()->at(3).is_null());
  EXPECT_EQ(tree->find(std::vector<std::string>{"b", "x", "y"}), nullptr);
  EXPECT_EQ(tree->find(std::vector<std::string>{"a", "x"}), nullptr);
  EXPECT_EQ(tree->find("c"), nullptr);
  EXPECT_NE(tree->find("")->object(), nullptr);
}

TEST(JsonTree, takes_what_has_a_canonical_form_and_nothing_else) {
  const std::string deep(max_json_depth, '[');
  for (const std::string& text : {std::string("{}"),
                                  std::string("[]"),
                                  std::string("1"),
                                  std::string(R"("x")"),
                                  std::string("[1,]"),
                                  std::string("{\"a\":1,}"),
                                  std::string("{a:1}"),
                                  std::string(R"({"a":1,"a":1})"),
                                  std::string(R"({"a":1,"\u0061":1})"),
                                  std::string(R"("\ud800")"),
                                  std::string("\"\xff\""),
                                  std::string("01"),
                                  std::string("1 2"),
                                  std::string(""),
                                  std::string("nul"),
                                  std::string("[1 2]"),
                                  std::string(R"({"a" 1})"),
                                  std::string("\"\n\""),
                                  deep + std::string(max_json_depth, ']'),
                                  "[" + deep + std::string(max_json_depth + 1, ']')}) {
    EXPECT_EQ(JsonTree::parse(text).has_value(), canonical_json(text).has_value()) << text;
  }
}

}  // namespace once::core::json_tree_test
