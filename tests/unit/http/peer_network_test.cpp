// Who counts as one peer.
#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

#include <gtest/gtest.h>

#include "http/endpoint.hpp"

namespace once::http::peer_network_test {

PeerNetwork network(const char* text) {
  sockaddr_storage address{};
  sockaddr_in four{};
  sockaddr_in6 six{};
  four.sin_family = AF_INET;
  six.sin6_family = AF_INET6;
  if (::inet_pton(AF_INET, text, &four.sin_addr) == 1) {
    std::memcpy(&address, &four, sizeof four);
  } else {
    EXPECT_EQ(::inet_pton(AF_INET6, text, &six.sin6_addr), 1) << text;
    std::memcpy(&address, &six, sizeof six);
  }
  return network_of(address);
}

TEST(PeerNetworkTest, an_ipv4_address_or_64_bits_of_an_ipv6_one) {
  EXPECT_EQ(network("192.0.2.1"), network("192.0.2.1"));
  EXPECT_NE(network("192.0.2.1"), network("192.0.2.2"));
  EXPECT_EQ(network("192.0.2.1"), network("::ffff:192.0.2.1"));
  EXPECT_NE(network("::ffff:192.0.2.1"), network("::ffff:192.0.2.2"));
  EXPECT_EQ(network("2001:db8:1:2::1"), network("2001:db8:1:2:ffff::9"));
  EXPECT_NE(network("2001:db8:1:2::1"), network("2001:db8:1:3::1"));
}

}  // namespace once::http::peer_network_test
