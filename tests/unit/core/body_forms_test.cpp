// Bodies that are compared by what they say: multipart bodies by their parts, forms by their fields.
#include "core/body_forms.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/fingerprint.hpp"

namespace once::core::body_forms_test {

using Body = FingerprintPolicy::Body;

Fingerprint print_of(std::string_view type, std::string_view body, Body how = Body::automatic) {
  FingerprintPolicy policy;
  policy.body = how;
  return fingerprint(policy, "POST", "/files", type, body);
}

std::string type_with(std::string_view boundary) {
  return "multipart/form-data; boundary=\"" + std::string(boundary) + "\"";
}

std::string multipart(std::string_view boundary, const std::vector<std::string>& parts,
                      std::string_view after = "\r\n") {
  std::string body;
  for (const std::string& part : parts) ((body += "--") += boundary) += "\r\n" + part + "\r\n";
  return ((body += "--") += boundary) += "--" + std::string(after);
}

std::string part(std::string_view name, std::string_view content, std::string_view more = "") {
  return "Content-Disposition: form-data; name=\"" + std::string(name) + "\"" + std::string(more) + "\r\n\r\n" +
         std::string(content);
}

Fingerprint parts(std::string_view boundary, const std::vector<std::string>& list, Body how = Body::automatic) {
  return print_of(type_with(boundary), multipart(boundary, list), how);
}

TEST(BodyForms, another_boundary_makes_no_difference) {
  const std::vector<std::string> list = {part("a", "1"), part("file", std::string("\0\r\n--\xff", 6))};
  const Fingerprint one = parts("----WebKitFormBoundary7MA4YWxkTrZu0gW", list);
  for (const Body how : {Body::automatic, Body::multipart, Body::json, Body::form}) {
    EXPECT_EQ(one, parts("dd8b33a7a9a14dbea8b4d2b8a6e1c3f0", list, how));
  }
  EXPECT_NE(one, parts("----WebKitFormBoundary7MA4YWxkTrZu0gW", list, Body::raw));
  EXPECT_EQ(one, print_of("Multipart/Form-Data;charset=utf-8 ; BOUNDARY = x ;", multipart("x", list)));
}

TEST(BodyForms, every_multipart_type_has_parts) {
  EXPECT_EQ(print_of("multipart/related; type=\"text/xml\"; boundary=a", multipart("a", {part("x", "1")})),
            print_of("multipart/related; type=\"text/xml\"; boundary=b", multipart("b", {part("x", "1")})));
  EXPECT_NE(print_of("multipart/related; start=\"<1>\"; boundary=a", multipart("a", {part("x", "1")})),
            print_of("multipart/related; start=\"<2>\"; boundary=b", multipart("b", {part("x", "1")})));
  EXPECT_NE(print_of("multipart/related; boundary=a", multipart("a", {part("x", "1")})),
            print_of("multipart/mixed; boundary=a", multipart("a", {part("x", "1")})));
}

TEST(BodyForms, everything_in_a_part_counts) {
  const std::string type = type_with("b");
  const Fingerprint one = parts("b", {part("a", "1"), part("b", "2", "; filename=\"f\"\r\nContent-Type: text/plain")});
  for (const auto& other : std::vector<std::vector<std::string>>{
           {part("b", "2", "; filename=\"f\"\r\nContent-Type: text/plain"), part("a", "1")},
           {part("c", "1"), part("b", "2", "; filename=\"f\"\r\nContent-Type: text/plain")},
           {part("a", "1"), part("b", "3", "; filename=\"f\"\r\nContent-Type: text/plain")},
           {part("a", "1"), part("b", "2", "; filename=\"g\"\r\nContent-Type: text/plain")},
           {part("a", "1"), part("b", "2", "; filename=\"f\"\r\nContent-Type: text/html")},
           {part("a", "1")},
           {part("a", "1"), part("b", "2", "; filename=\"f\"\r\nContent-Type: text/plain"), ""}}) {
    EXPECT_NE(one, parts("b", other));
  }
  EXPECT_NE(print_of(type, multipart("b", {"x"}, "")), print_of(type, multipart("b", {"x"}, "\r\n")));
  EXPECT_NE(print_of(type, "\r\n" + multipart("b", {"x"})), print_of(type, multipart("b", {"x"})));
}

TEST(BodyForms, a_malformed_multipart_body_counts_by_its_bytes) {
  const std::vector<std::pair<std::string, std::string>> malformed = {
      {"multipart/form-data", multipart("b", {"x"})},
      {"multipart/form-data; boundary=", multipart("", {"x"})},
      {"multipart/form-data; boundary=\"b", multipart("b", {"x"})},
      {"multipart/form-data; boundary=b", ""},
      {"multipart/form-data; boundary=a,b", multipart("a,b", {"x"})},
      {"multipart/form-data; boundary='b'", multipart("'b'", {"x"})},
      {"multipart/form-data; boundary=a b", multipart("a b", {"x"})},
      {"multipart/form-data; boundary=b; boundary=c", multipart("b", {"x"})},
      {"multipart/form-data; boundary=b; boundary*0=c", multipart("b", {"x"})},
      {"multipart/form-data; boundary=" + std::string(71, 'b'), multipart(std::string(71, 'b'), {"x"})},
      {type_with("b"), ""},
      {type_with("b"), "x"},
      {type_with("b"), "--b\r\nx"},
      {type_with("b"), "--b\r\nx\r\n--b"},
      {type_with("b"), "--b\r\n--b--"},
      {type_with("b"), "x--b--"},
      {type_with("b"), "--b \r\nx\r\n--b--"},
      {type_with("b"), "--b\nx\n--b--"},
      {type_with("b"), "--b\r\nx\n--b\r\ny\r\n--b--"},
      {type_with("b"), "--b--x"},
      {type_with("b"), "--b--\r\n--b--"},
      {type_with("b"), "--b\r\nx\r\n--bc\r\ny\r\n--b--"}};
  for (const auto& [type, body] : malformed) {
    EXPECT_EQ(print_of(type, body), print_of(type, body, Body::raw)) << type << "\n" << body;
  }
}

TEST(BodyForms, the_kinds_never_meet) {
  const std::string form = "application/x-www-form-urlencoded";
  EXPECT_NE(print_of(type_with("b"), multipart("b", {})), print_of(type_with("b"), ""));
  EXPECT_NE(print_of(form, "", Body::form), print_of(form, "", Body::raw));
  EXPECT_NE(print_of(form, "", Body::none), print_of(form, "", Body::raw));
  EXPECT_NE(print_of(form, "", Body::none), print_of(form, "", Body::form));
}

TEST(BodyForms, a_form_counts_by_its_fields_only_where_asked) {
  const std::string form = "application/x-www-form-urlencoded";
  EXPECT_NE(print_of(form, "a=x+y"), print_of(form, "a=x%20y"));
  EXPECT_EQ(print_of(form, "a=x+y"), print_of(form, "a=x+y", Body::raw));
  EXPECT_EQ(print_of(form, "a=x+y&%62=%c3%a9", Body::form), print_of(form + ";x", "a=x%20y&b=%C3%A9", Body::form));
  EXPECT_NE(print_of("text/plain", "a=x+y", Body::form), print_of("text/plain", "a=x%20y", Body::form));
  const std::vector<std::string> different = {"",          "a",        "a=",      "=a",      "a=1",
                                              "a=1&",      "&a=1",     "a=1&b=2", "b=2&a=1", "a%3D1",
                                              "a=1%26b=2", "a=1&&b=2", "a=2&a=1", "a=1&a=2", "a==1"};
  for (const std::string& a : different) {
    for (const std::string& b : different) {
      EXPECT_EQ(print_of(form, a, Body::form) == print_of(form, b, Body::form), a == b) << a << ' ' << b;
    }
  }
  for (const std::string malformed : {"a=%", "a=%4", "%zz=1", "a=%4g"}) {
    EXPECT_EQ(print_of(form, malformed, Body::form), print_of(form, malformed, Body::raw));
  }
}

TEST(BodyForms, none_leaves_the_body_out_and_nothing_else) {
  EXPECT_EQ(print_of("text/plain", "a", Body::none), print_of("text/plain", "b", Body::none));
  EXPECT_NE(print_of("text/plain", "a", Body::none), print_of("text/html", "a", Body::none));
}

// Golden bytes, computed with Python's hashlib: fingerprints are stored, so these values must never change.
TEST(BodyForms, are_stable_across_releases) {
  EXPECT_EQ(to_hex(print_of(type_with("b"), multipart("b", {part("a", "1"), part("b", "2")}))),
            "88656e768527b973f4e5aae02eb1531d0f4a010a3c5f76c31e746f6b0b6074e8");
  EXPECT_EQ(to_hex(print_of("application/x-www-form-urlencoded", "a=x+y&b", Body::form)),
            "d560753d841043b4fb861da861534e4da956728aa2ae1db6b455cc997c625ee2");
}

// Parts made of what delimiters are made of.
rc::Gen<std::string> near_delimiters(std::string_view letters) {
  return rc::gen::container<std::string>(rc::gen::elementOf(std::string(letters)));
}

rc::Gen<std::string> boundaries() {
  return rc::gen::suchThat(near_delimiters("ab-"),
                           [](const std::string& text) { return !text.empty() && text.size() <= 70; });
}

bool meets(std::string_view boundary, const std::vector<std::string>& list) {
  const std::string delimiter = "--" + std::string(boundary);
  for (const std::string& one : list) {
    if (one.contains(delimiter)) return true;
  }
  return false;
}

RC_GTEST_PROP(BodyFormsProperty, parts_are_equal_exactly_if_their_bytes_are, ()) {
  const auto list_gen = rc::gen::container<std::vector<std::string>>(near_delimiters("ab-\r\n"));
  const auto a = *list_gen;
  const auto b = *rc::gen::oneOf(list_gen, rc::gen::just(a));
  const auto one = *boundaries();
  const auto two = *boundaries();
  RC_PRE(!meets(one, a) && !meets(two, b));
  RC_ASSERT((parts(one, a) == parts(two, b)) == (a == b));
}

RC_GTEST_PROP(BodyFormsProperty, any_two_bodies_with_one_boundary_differ, ()) {
  const auto boundary = *boundaries();
  const auto body = [&] {
    const auto pieces = *rc::gen::container<std::vector<std::string>>(
        rc::gen::oneOf(rc::gen::just("--" + boundary), rc::gen::just(std::string("\r\n")), near_delimiters("ab-\r\n")));
    std::string all;
    for (const std::string& piece : pieces) all += piece;
    return all;
  };
  const std::string a = body();
  const std::string b = body();
  RC_ASSERT((print_of(type_with(boundary), a) == print_of(type_with(boundary), b)) == (a == b));
}

}  // namespace once::core::body_forms_test
