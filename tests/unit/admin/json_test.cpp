#include "admin/json.hpp"

#include <limits>

#include <gtest/gtest.h>

namespace once::admin::json_test {

TEST(Json, commas_stand_where_they_belong) {
  Json out;
  out.begin('{').member("a", std::uint64_t{1}).name("list").begin('[').value("x\"<").value(true).begin('{').end('}');
  out.end(']').name("empty").begin('[').end(']').member("last", std::optional<double>()).end('}');
  EXPECT_EQ(out.take(), R"({"a":1,"list":["x\"<",true,{}],"empty":[],"last":null})");
}

TEST(Json, what_ends_like_a_bracket_is_still_text) {
  Json out;
  out.begin('[').value("{").value("[").value(":").end(']');
  EXPECT_EQ(out.take(), R"(["{","[",":"])");
}

TEST(Json, numbers_are_numbers) {
  Json out;
  out.begin('[').value(0.1 + 0.2).value(1e21).value(std::numeric_limits<double>::infinity()).value(-3).end(']');
  EXPECT_EQ(out.take(), "[0.3,1e+21,null,-3]");
}

}  // namespace once::admin::json_test
