#include "store/server/store_url.hpp"

#include <gtest/gtest.h>

namespace once::store {
namespace store_url_test {

TEST(StoreUrl, has_all_its_parts) {
  const auto url = parse_store_url("mysql://shop:p%40ss%2Fw@one:3306,[::1]:3307,three/once?ssl-mode=verify&a=%20b");
  ASSERT_TRUE(url.has_value());
  EXPECT_EQ(url->scheme, "mysql");
  EXPECT_EQ(url->user, "shop");
  EXPECT_EQ(url->password, "p@ss/w");
  EXPECT_EQ(url->hosts, (std::vector<StoreHost>{{"one", 3306}, {"::1", 3307}, {"three", 0}}));
  EXPECT_EQ(url->database, "once");
  ASSERT_NE(url->option("ssl-mode"), nullptr);
  EXPECT_EQ(*url->option("ssl-mode"), "verify");
  EXPECT_EQ(*url->option("a"), " b");
  EXPECT_EQ(url->option("b"), nullptr);
}

TEST(StoreUrl, may_be_short) {
  const auto url = parse_store_url("redis://localhost");
  ASSERT_TRUE(url.has_value());
  EXPECT_EQ(url->hosts, (std::vector<StoreHost>{{"localhost", 0}}));
  EXPECT_TRUE(url->user.empty() && url->password.empty() && url->database.empty() && url->options.empty());
}

TEST(StoreUrl, a_password_may_hold_an_escaped_at_sign_and_be_alone) {
  const auto url = parse_store_url("redis://:se%40cret@host:1");
  ASSERT_TRUE(url.has_value());
  EXPECT_EQ(url->user, "");
  EXPECT_EQ(url->password, "se@cret");
  EXPECT_EQ(url->hosts.front().name, "host");
}

TEST(StoreUrl, what_is_wrong_is_said_without_the_secret) {
  for (const char* text :
       {"redis:host", "redis://u:secret@h:0", "redis://u:secret@h:65536", "redis://u:secret@h:port",
        "redis://u:secret%4@h", "redis://u:secret%zz@h", "redis://u:secret%00@h", "redis://u:secret@[::1",
        "redis://u:secret@more@h", "redis://u:secret/more@h/db", "redis://u:secret@[::1]x", "redis://u:secret@h?=x"}) {
    SCOPED_TRACE(text);
    const auto url = parse_store_url(text);
    ASSERT_FALSE(url.has_value());
    EXPECT_EQ(url.error().retryable, Retryable::no);
    EXPECT_FALSE(url.error().detail.contains("secret"));
  }
}

TEST(StoreUrl, without_its_password_it_is_fit_for_a_log) {
  EXPECT_EQ(without_password("postgres://u:secret@h:1,i/db?sslmode=require&sslpassword=secret"),
            "postgres://u:***@h:1,i/db?sslmode=require&sslpassword=***");
  EXPECT_EQ(without_password("postgres://u@h/db"), "postgres://u@h/db");
  EXPECT_EQ(without_password("redis://:se@cret@h"), "redis://:***@h");
  EXPECT_EQ(without_password("postgres:///db?password=secret"), "postgres:///db?password=***");
  EXPECT_EQ(without_password("redis://u:secret/more@h/db"), "redis://***");
  EXPECT_EQ(without_password("journal:/var/lib/once"), "journal:/var/lib/once");
}

}  // namespace store_url_test
}  // namespace once::store
