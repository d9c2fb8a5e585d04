#include "core/route_label.hpp"

#include <gtest/gtest.h>

namespace once::core::route_label_test {

std::string label_of(const LabelledRequest& request) {
  std::string out = "of the request before";
  write_route_label(out, request);
  return out;
}

const std::string hex_digits = "00112233445566778899aabbccddeeff";

TEST(RouteLabel, gives_back_what_was_written) {
  const std::string uuid = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
  for (const std::string& id : {hex_digits, uuid, std::string("req_7/x"), std::string("F") + hex_digits.substr(1),
                                std::string("f81d4fae+7dec-11d0-a765-00a0c91e6bf6"), std::string()}) {
    for (const std::string method : {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "QUERY", "LINK"}) {
      for (const std::string& path : {std::string("/orders/17"), std::string("/orders/*"), std::string("/"),
                                      std::string("/a%20b/%C3%A4"), "/orders/*" + std::string(120, 'x')}) {
        const std::string label = label_of({.route = "/orders/*", .method = method, .path = path, .request_id = id});
        EXPECT_EQ(route_in(label), "/orders/*") << label;
        EXPECT_EQ(details_in(label), (RequestDetails{.method = method, .path = path, .request_id = id})) << label;
      }
    }
  }
}

// The bytes are stored: programs of other versions read them.
TEST(RouteLabel, is_written_in_these_bytes) {
  EXPECT_EQ(label_of({.route = "/orders/*", .method = "POST", .path = "/orders/17", .request_id = hex_digits}),
            "/orders/*\tPhABEiM0RVZneImaq7zN3u_w)17");
  EXPECT_EQ(label_of({.route = "/orders", .method = "PUT", .path = "/orders", .request_id = "r-1"}),
            "/orders\tUtr-1 (");
  EXPECT_EQ(label_of({.route = "/", .method = "LINK", .path = "/a", .request_id = "r-1"}), "/\tXLINK tr-1 \"a");
  EXPECT_EQ(label_of({.route = "a.test,b.test/a/**", .method = "POST", .path = "/a/b", .request_id = "r-1"}),
            "a.test,b.test/a/**\tPtr-1 $b");
}

TEST(RouteLabel, a_route_or_a_scope_alone_has_no_details) {
  for (const std::string_view label : {"", "/orders", "invoices", "a\tb", "a\t", "a\tP", "a\tPh", "a\tPx/",
                                       "a\tPhshort", "a\tPtr-1 ", "a\tPtr-1 \x7f/"}) {
    EXPECT_FALSE(details_in(label)) << label;
    EXPECT_EQ(route_in(label), label) << "a scope may have a tab";
  }
  EXPECT_EQ(label_of({.route = "invoices", .method = {}, .path = {}, .request_id = {}}), "invoices");
}

TEST(RouteLabel, is_bounded_and_has_visible_bytes_only) {
  const std::string longer(300, 'x');
  const std::string label = label_of({.route = "/a", .method = "POST", .path = "/" + longer, .request_id = longer});
  EXPECT_EQ(label.size(), longest_route_label);
  const auto details = details_in(label);
  ASSERT_TRUE(details);
  EXPECT_EQ(details->request_id, longer.substr(0, 64));
  EXPECT_TRUE(details->path.starts_with("/xxx"));
  EXPECT_EQ(details_in(label_of({.route = "/a", .method = "POST", .path = "/\xc3\xa4 \n", .request_id = "r"}))->path,
            "/????");
  const std::string narrow(250, 'r');
  EXPECT_EQ(label_of({.route = narrow, .method = "POST", .path = "/", .request_id = "12345"}), narrow)
      << "half an id says nothing";
  EXPECT_EQ(label_of({.route = longer, .method = "POST", .path = "/", .request_id = "1"}), longer.substr(0, 255));
}

TEST(RouteLabel, any_bytes_can_be_read) {
  std::string bytes = "r\t";
  for (std::uint32_t seed = 1; seed < 20'000; ++seed) {
    const std::uint32_t drawn = seed * 2'654'435'761U;
    bytes.resize(2 + seed % 29);
    bytes.back() = static_cast<char>(drawn >> 24U);
    if (bytes.size() > 4) bytes[2] = "GHPUADQX"[drawn >> 10U & 7U];
    if (bytes.size() > 4) bytes[3] = "huth"[drawn >> 13U & 3U];
    const auto details = details_in(bytes);
    if (details) EXPECT_LE(details->request_id.size(), 36U);
  }
}

}  // namespace once::core::route_label_test
