// Addresses, networks, and who is behind a row of proxies.
#include "http/address_set.hpp"

#include <gtest/gtest.h>

namespace once::http::address_set_test {

TEST(IpAddress, one_text_for_all_spellings) {
  struct Case {
    std::string_view text;
    std::string_view shown;
  };
  for (const auto& [text, shown] :
       {Case{"127.0.0.1", "127.0.0.1"}, Case{"::ffff:127.0.0.1", "127.0.0.1"}, Case{"::FFFF:7f00:1", "127.0.0.1"},
        Case{"2001:DB8:0:0::1", "2001:db8::1"}, Case{"::1", "::1"}, Case{"0.0.0.0", "0.0.0.0"}}) {
    const auto address = IpAddress::parse(text);
    ASSERT_TRUE(address.has_value()) << text;
    EXPECT_EQ(address->text(), shown);
  }
  for (const std::string_view bad : {"", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.2.3.4", "1.2.3.4 ", "localhost",
                                     "[::1]", "fe80::1%eth0", "1.2.3.4:80", "::g", "unknown"}) {
    EXPECT_FALSE(IpAddress::parse(bad).has_value()) << bad;
  }
  EXPECT_FALSE(IpAddress::parse(std::string_view("1.2.3.4\0", 8)).has_value());
}

AddressSet set_of(std::initializer_list<std::string_view> networks) {
  AddressSet set;
  for (const std::string_view network : networks) EXPECT_TRUE(set.add(network)) << network;
  return set;
}

TEST(AddressSet, networks_contain_their_addresses) {
  const AddressSet set = set_of({"10.0.0.0/8", "192.168.1.128/25", "203.0.113.7", "2001:db8::/33", "::1"});
  for (const std::string_view in : {"10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3", "192.168.1.128", "192.168.1.255",
                                    "203.0.113.7", "2001:db8:7fff::", "::1"}) {
    EXPECT_TRUE(set.contains(*IpAddress::parse(in))) << in;
  }
  for (const std::string_view out :
       {"11.0.0.0", "9.255.255.255", "192.168.1.127", "203.0.113.8", "2001:db8:8000::", "::2", "::a00:1"}) {
    EXPECT_FALSE(set.contains(*IpAddress::parse(out))) << out;
  }
  EXPECT_TRUE(set_of({"0.0.0.0/0"}).contains(*IpAddress::parse("1.2.3.4")));
  EXPECT_FALSE(set_of({"0.0.0.0/0"}).contains(*IpAddress::parse("::1")));
  EXPECT_TRUE(set_of({"::/0"}).contains(*IpAddress::parse("1.2.3.4")));
}

TEST(AddressSet, what_is_no_network_is_not_added) {
  AddressSet set;
  for (const std::string_view bad : {"", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.1/8", "2001:db8::1/64", "::/129",
                                     "10.0.0.0/8/8", "10.0.0.0/-1", "10.0.0.0/ 8", "proxy", "Unix", "10.0.0.0/1x"}) {
    EXPECT_FALSE(set.add(bad)) << bad;
  }
  EXPECT_TRUE(set.empty());
  EXPECT_TRUE(set.add("unix"));
  EXPECT_FALSE(set.empty());
}

std::string seen(std::string_view peer, std::vector<std::string_view> forwarded, const AddressSet& trusted) {
  const auto address = client_address(peer, std::move(forwarded), trusted);
  return address ? address->text() : "nobody";
}

TEST(ClientAddress, only_what_trusted_proxies_say_counts) {
  const AddressSet trusted = set_of({"10.0.0.0/8", "::1"});
  // A client that connects itself can say what it likes.
  EXPECT_EQ(seen("203.0.113.9", {"1.2.3.4"}, trusted), "203.0.113.9");
  EXPECT_EQ(seen("10.0.0.1", {}, trusted), "10.0.0.1");
  EXPECT_EQ(seen("10.0.0.1", {"1.2.3.4"}, trusted), "1.2.3.4");
  EXPECT_EQ(seen("10.0.0.1", {"1.2.3.4"}, AddressSet()), "10.0.0.1");
  // What it said of itself stands left of what the proxy saw.
  EXPECT_EQ(seen("10.0.0.1", {"6.6.6.6, 1.2.3.4"}, trusted), "1.2.3.4");
  EXPECT_EQ(seen("10.0.0.1", {"6.6.6.6", "1.2.3.4,10.9.9.9"}, trusted), "1.2.3.4");
  EXPECT_EQ(seen("10.0.0.1", {"10.0.0.3", "10.0.0.2"}, trusted), "10.0.0.3");
  EXPECT_EQ(seen("::ffff:10.0.0.1", {" ::ffff:1.2.3.4 "}, trusted), "1.2.3.4");
  EXPECT_EQ(seen("::1", {"[2001:db8::5]:443"}, trusted), "2001:db8::5");
  EXPECT_EQ(seen("10.0.0.1", {"1.2.3.4:5678"}, trusted), "1.2.3.4");
}

TEST(ClientAddress, what_is_no_address_ends_the_walk_at_the_proxy_that_passed_it_on) {
  const AddressSet trusted = set_of({"10.0.0.0/8"});
  for (const std::string_view bad : {"unknown", "", ",", "1.2.3.4,", "1.2.3.4, x", "1.2.3.4 5", "[1.2.3.4]", "[::1",
                                     "[::1]x", "1.2.3.4:x", "1.2.3.4:"}) {
    EXPECT_EQ(seen("10.0.0.1", {bad}, trusted), "10.0.0.1") << bad;
  }
  EXPECT_EQ(seen("10.0.0.1", {"1.2.3.4, x, 10.0.0.2"}, trusted), "10.0.0.2");
}

TEST(ClientAddress, through_a_unix_socket) {
  EXPECT_EQ(seen("unix", {"1.2.3.4"}, AddressSet()), "nobody");
  EXPECT_EQ(seen("unix", {"1.2.3.4"}, set_of({"10.0.0.0/8"})), "nobody");
  EXPECT_EQ(seen("unix", {"1.2.3.4"}, set_of({"unix"})), "1.2.3.4");
  EXPECT_EQ(seen("unix", {}, set_of({"unix"})), "nobody");
  EXPECT_EQ(seen("", {"1.2.3.4"}, set_of({"unix"})), "nobody");
}

}  // namespace once::http::address_set_test
