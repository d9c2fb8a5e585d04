// Headers of the PROXY protocol: which are taken, what they say, and which are refused.
#include "http/proxy_protocol.hpp"

#include <cstdint>
#include <initializer_list>
#include <string>

#include <gtest/gtest.h>

#include "http/endpoint.hpp"

namespace once::http::proxy_protocol_test {

using Kind = ProxyHeaderRead::Kind;
using Source = ProxyHeader::Source;

const std::string v2_signature("\r\n\r\n\0\r\nQUIT\n", 12);
const std::string ipv4_addresses("\xc0\x00\x02\x01\xc0\x00\x02\x09\x12\x67\x01\xbb", 12);

std::string bytes_of(std::initializer_list<unsigned> values) {
  std::string bytes;
  for (const unsigned value : values) bytes.push_back(static_cast<char>(value));
  return bytes;
}

std::string version_2(unsigned command, unsigned family, const std::string& rest) {
  const auto size = static_cast<unsigned>(rest.size());
  return v2_signature + bytes_of({0x20U | command, family, size >> 8U, size & 0xffU}) + rest;
}

std::string peer_of(const std::string& header) {
  const ProxyHeaderRead read = read_proxy_header(header + "the client's own");
  EXPECT_EQ(read.kind, Kind::whole) << read.problem;
  EXPECT_EQ(read.header.source, Source::client);
  EXPECT_EQ(read.header.size, header.size());
  return peer_text(read.header.address);
}

void expect_without_address(const std::string& header, Source source) {
  const ProxyHeaderRead read = read_proxy_header(header + "x");
  EXPECT_EQ(read.kind, Kind::whole) << read.problem;
  EXPECT_EQ(read.header.source, source);
  EXPECT_EQ(read.header.size, header.size());
  EXPECT_EQ(read.header.address.ss_family, AF_UNSPEC);
}

TEST(ProxyProtocolTest, version_1_names_the_client) {
  EXPECT_EQ(peer_of("PROXY TCP4 192.0.2.1 192.0.2.9 4711 443\r\n"), "192.0.2.1");
  EXPECT_EQ(peer_of("PROXY TCP6 2001:db8::1 2001:db8::9 4711 443\r\n"), "2001:db8::1");
  EXPECT_EQ(peer_of("PROXY TCP6 ::ffff:192.0.2.1 ::1 0 65535\r\n"), "192.0.2.1");
}

TEST(ProxyProtocolTest, version_1_may_not_know_the_client) {
  expect_without_address("PROXY UNKNOWN\r\n", Source::unknown);
  expect_without_address("PROXY UNKNOWN 192.0.2.1 whatever it likes\r\n", Source::unknown);
}

TEST(ProxyProtocolTest, version_2_names_the_client) {
  EXPECT_EQ(peer_of(version_2(1, 0x11, ipv4_addresses)), "192.0.2.1");
  std::string ipv6(36, '\0');
  ipv6.replace(0, 2, "\x20\x01");
  ipv6[15] = 7;
  EXPECT_EQ(peer_of(version_2(1, 0x21, ipv6)), "2001::7");
}

TEST(ProxyProtocolTest, version_2_may_be_of_the_proxy_itself_or_of_nobody_known) {
  expect_without_address(version_2(0, 0x00, ""), Source::proxy);
  expect_without_address(version_2(0, 0x11, ipv4_addresses), Source::proxy);
  expect_without_address(version_2(0, 0xff, "anything"), Source::proxy);
  expect_without_address(version_2(1, 0x00, "anything"), Source::unknown);
  expect_without_address(version_2(1, 0x31, std::string(216, 'x')), Source::unknown);
}

TEST(ProxyProtocolTest, extensions_are_skipped) {
  const std::string extensions = bytes_of({0x02, 0, 3}) + "api" + bytes_of({0xea, 0, 0}) + bytes_of({0x04, 0, 1, 0});
  EXPECT_EQ(peer_of(version_2(1, 0x11, ipv4_addresses + extensions)), "192.0.2.1");
}

TEST(ProxyProtocolTest, a_checksum_must_be_right) {
  const std::string right = bytes_of({0x03, 0, 4, 0x35, 0x7b, 0xb2, 0x9d});
  EXPECT_EQ(peer_of(version_2(1, 0x11, ipv4_addresses + right)), "192.0.2.1");
  const std::string wrong = bytes_of({0x03, 0, 4, 0, 0, 0, 1});
  EXPECT_EQ(read_proxy_header(version_2(1, 0x11, ipv4_addresses + wrong)).kind, Kind::malformed);
}

TEST(ProxyProtocolTest, a_header_in_pieces_is_waited_for) {
  const std::string headers[] = {"PROXY TCP4 192.0.2.1 192.0.2.9 4711 443\r\n", "PROXY UNKNOWN\r\n",
                                 version_2(1, 0x11, ipv4_addresses), version_2(0, 0, "")};
  for (const std::string& header : headers) {
    for (std::size_t part = 0; part < header.size(); ++part) {
      EXPECT_EQ(read_proxy_header(header.substr(0, part)).kind, Kind::incomplete) << header << " after " << part;
    }
  }
}

TEST(ProxyProtocolTest, what_is_malformed_is_refused) {
  const std::string wrong[] = {"GET / HTTP/1.1\r\n",
                               "\x16\x03\x01",
                               "P ",
                               "PROXY TCP4 192.0.2.1 192.0.2.9 4711 443\n",
                               "PROXY TCP4 192.0.2.1 192.0.2.9 4711\r\n",
                               "PROXY TCP4 192.0.2.1 192.0.2.9 4711 443 1\r\n",
                               "PROXY TCP4 192.0.2.1  192.0.2.9 4711 443\r\n",
                               "PROXY TCP4 192.0.2.1 192.0.2.9 4711 443 \r\n",
                               "PROXY TCP4 192.0.2.01 192.0.2.9 4711 443\r\n",
                               "PROXY TCP4 2001:db8::1 192.0.2.9 4711 443\r\n",
                               "PROXY TCP6 192.0.2.1 2001:db8::9 4711 443\r\n",
                               "PROXY TCP4 192.0.2.1 192.0.2.9 65536 443\r\n",
                               "PROXY TCP4 192.0.2.1 192.0.2.9 04711 443\r\n",
                               "PROXY TCP4 192.0.2.1 192.0.2.9 +4711 443\r\n",
                               "PROXY TCP4 api.test 192.0.2.9 4711 443\r\n",
                               "PROXY UDP4 192.0.2.1 192.0.2.9 4711 443\r\n",
                               "PROXY UNKNOWNS\r\n",
                               "PROXY  TCP4 192.0.2.1 192.0.2.9 4711 443\r\n",
                               "proxy TCP4 192.0.2.1 192.0.2.9 4711 443\r\n",
                               "PROXY UNKNOWN \r \r\n",
                               "PROXY UNKNOWN " + std::string(107, 'x'),
                               v2_signature + bytes_of({0x11, 0x11, 0, 12}) + ipv4_addresses,
                               v2_signature + bytes_of({0x22, 0x11, 0, 12}) + ipv4_addresses,
                               version_2(1, 0x12, ipv4_addresses),
                               version_2(1, 0x41, ipv4_addresses),
                               version_2(1, 0x11, ipv4_addresses.substr(1)),
                               version_2(1, 0x21, ipv4_addresses),
                               version_2(1, 0x11, ipv4_addresses + "ab"),
                               version_2(1, 0x11, ipv4_addresses + bytes_of({2, 0, 9}) + "short"),
                               v2_signature + bytes_of({0x21, 0x11, 0xff, 0xff})};
  for (const std::string& header : wrong) {
    const ProxyHeaderRead read = read_proxy_header(header);
    EXPECT_EQ(read.kind, Kind::malformed) << header;
    EXPECT_FALSE(read.problem.empty());
  }
}

}  // namespace once::http::proxy_protocol_test
