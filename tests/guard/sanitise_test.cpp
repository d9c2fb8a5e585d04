// What is kept of a JSON value.
#include <string>

#include <gtest/gtest.h>
#include <once/guard.hpp>

namespace once::guard::sanitise_test {

std::string kept(std::string_view json, const Sanitise& what) {
  return sanitise(json, what).value_or("not valid");
}

TEST(Sanitise, only_what_is_asked_for_from_the_top) {
  const Sanitise what{.store_only = {"ok", "data.id"}};
  EXPECT_EQ(kept(R"({"ok": true, "x": 1, "data": {"id": [1, 2.50], "ok": 2}})", what),
            R"({"ok":true,"data":{"id":[1,2.50]}})");
  EXPECT_EQ(kept(R"({"data": 5})", what), "{}");
  EXPECT_EQ(kept(R"([{"ok": 1, "x": 2}, 3, []])", what), R"([{"ok":1},[]])");
  EXPECT_EQ(kept(R"("raw text")", what), "null");
}

TEST(Sanitise, never_wherever_it_is) {
  const Sanitise what{.never_store = {"debug", "error.message"}};
  EXPECT_EQ(kept(R"({"a": {"debug": {"x": 1}, "error": {"message": "m", "code": 5}}, "message": "kept"})", what),
            R"({"a":{"error":{"code":5}},"message":"kept"})");
  EXPECT_EQ(kept(R"({"error": [{"message": "m"}, {"code": 1}]})", what), R"({"error":[{},{"code":1}]})");
}

TEST(Sanitise, never_comes_before_only) {
  EXPECT_EQ(kept(R"({"data": {"prompt": "p", "id": 1}})", {.store_only = {"data"}, .never_store = {"prompt"}}),
            R"({"data":{"id":1}})");
}

TEST(Sanitise, escapes_do_not_hide_a_name) {
  EXPECT_EQ(kept(R"({"pr\u006fmpt": 1, "a": 2})", {.never_store = {"prompt"}}), R"({"a":2})");
}

TEST(Sanitise, values_stay_as_they_were_written) {
  EXPECT_EQ(kept("{\"n\" : 1.50e+3 ,\n\"s\":\"\\u00e9 \\/\"}", {.never_store = {"x"}}),
            R"({"n":1.50e+3,"s":"\u00e9 \/"})");
}

TEST(Sanitise, what_is_not_json_has_no_safe_form) {
  const Sanitise what{.never_store = {"x"}};
  for (const char* wrong :
       {"", "{", "{\"a\":}", "{\"a\":1,}", "[1", "01", "{} {}", "nul", R"({"a":1,"a":2})", "\"\x01\""}) {
    EXPECT_FALSE(sanitise(wrong, what).has_value()) << wrong;
  }
  EXPECT_FALSE(sanitise(std::string(100, '[') + std::string(100, ']'), what).has_value());
}

TEST(Sanitise, what_is_dropped_must_be_valid_too) {
  EXPECT_FALSE(sanitise(R"({"x": {"y": 01}})", {.never_store = {"x"}}).has_value());
}

}  // namespace once::guard::sanitise_test
