#include "http/proxy_protocol.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/crc32c.hpp"
#include "base/text.hpp"

namespace once::http {

namespace {

using Kind = ProxyHeaderRead::Kind;
using Source = ProxyHeader::Source;

constexpr std::string_view v1_start = "PROXY ";
constexpr std::size_t longest_v1 = 107;  // with its line end
constexpr std::string_view v2_start{"\r\n\r\n\0\r\nQUIT\n", 12};
constexpr std::size_t v2_fixed = 16;  // the start, version and command, family, length

// Sizes of the address block of a version 2 header, by family.
constexpr std::size_t ipv4_block = 12;
constexpr std::size_t ipv6_block = 36;
constexpr std::size_t unix_block = 216;

constexpr std::uint8_t type_crc32c = 0x03;

ProxyHeaderRead malformed(std::string_view problem) {
  return {.kind = Kind::malformed, .header = {}, .problem = problem};
}

ProxyHeaderRead whole(Source source, std::size_t size) {
  return {.kind = Kind::whole, .header = {.source = source, .address = {}, .size = size}, .problem = {}};
}

// Whether one is a prefix of the other.
bool agree(std::string_view bytes, std::string_view start) {
  const std::size_t common = std::min(bytes.size(), start.size());
  return bytes.substr(0, common) == start.substr(0, common);
}

std::uint8_t byte_at(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint8_t>(bytes[at]);
}

std::size_t number_at(std::string_view bytes, std::size_t at) {
  return static_cast<std::size_t>(byte_at(bytes, at)) << 8U | byte_at(bytes, at + 1);
}

void set_ipv4(sockaddr_storage& out, const void* address, std::uint16_t port) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  std::memcpy(&four.sin_addr, address, sizeof four.sin_addr);
  std::memcpy(&out, &four, sizeof four);
}

void set_ipv6(sockaddr_storage& out, const void* address, std::uint16_t port) {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  std::memcpy(&six.sin6_addr, address, sizeof six.sin6_addr);
  std::memcpy(&out, &six, sizeof six);
}

std::optional<std::uint16_t> read_port(std::string_view text) {
  if (text.empty() || text.size() > 5 || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  const auto number = parse_number(text);
  if (!number || *number > 65535) return std::nullopt;
  return static_cast<std::uint16_t>(*number);
}

ProxyHeaderRead read_v1_addresses(std::string_view fields, int family, std::size_t size) {
  const std::vector<std::string_view> parts = split(fields, ' ');
  if (parts.size() != 4) return malformed("a version 1 header does not have two addresses and two ports");
  std::array<std::uint8_t, sizeof(in6_addr)> client{};
  std::array<std::uint8_t, sizeof(in6_addr)> server{};
  if (::inet_pton(family, std::string(parts[0]).c_str(), client.data()) != 1 ||
      ::inet_pton(family, std::string(parts[1]).c_str(), server.data()) != 1) {
    return malformed("an address of a version 1 header does not match its family");
  }
  const auto client_port = read_port(parts[2]);
  if (!client_port || !read_port(parts[3])) return malformed("a port of a version 1 header is not valid");
  ProxyHeaderRead read = whole(Source::client, size);
  if (family == AF_INET) {
    set_ipv4(read.header.address, client.data(), *client_port);
  } else {
    set_ipv6(read.header.address, client.data(), *client_port);
  }
  return read;
}

// "PROXY TCP4 192.0.2.1 192.0.2.9 4711 443\r\n"
ProxyHeaderRead read_v1(std::string_view bytes) {
  const std::size_t end = bytes.substr(0, longest_v1).find('\n');
  if (end == std::string_view::npos) {
    if (bytes.size() >= longest_v1) return malformed("a version 1 header has no end");
    return {};
  }
  if (bytes[end - 1] != '\r') return malformed("a version 1 header does not end in CRLF");
  const std::string_view line = bytes.substr(0, end - 1);
  const std::size_t size = end + 1;
  if (line.find_first_of(std::string_view("\r\0", 2)) != std::string_view::npos) {
    return malformed("a version 1 header contains control characters");
  }
  const std::string_view rest = line.substr(v1_start.size());
  constexpr std::string_view unknown = "UNKNOWN";
  if (rest == unknown || rest.starts_with("UNKNOWN ")) return whole(Source::unknown, size);
  if (rest.starts_with("TCP4 ")) return read_v1_addresses(rest.substr(5), AF_INET, size);
  if (rest.starts_with("TCP6 ")) return read_v1_addresses(rest.substr(5), AF_INET6, size);
  return malformed("a version 1 header names no known protocol");
}

// Extensions have a type, a length and a value; only a checksum is verified.
std::optional<std::string_view> wrong_extras(std::string_view header, std::size_t at) {
  while (at < header.size()) {
    if (header.size() - at < 3) return "an extension of a version 2 header is cut off";
    const std::uint8_t type = byte_at(header, at);
    const std::size_t size = number_at(header, at + 1);
    at += 3;
    if (header.size() - at < size) return "an extension of a version 2 header is longer than the header";
    if (type == type_crc32c) {
      if (size != 4) return "the checksum of a version 2 header has the wrong size";
      constexpr std::string_view zeros{"\0\0\0\0", 4};
      const std::uint32_t sum = crc32c(header.substr(at + 4), crc32c(zeros, crc32c(header.substr(0, at))));
      if (sum != (number_at(header, at) << 16U | number_at(header, at + 2))) {
        return "the checksum of a version 2 header is wrong";
      }
    }
    at += size;
  }
  return std::nullopt;
}

ProxyHeaderRead read_v2_addresses(std::string_view header) {
  constexpr std::uint8_t unspecified = 0x00;
  constexpr std::uint8_t tcp4 = 0x11;
  constexpr std::uint8_t tcp6 = 0x21;
  constexpr std::uint8_t unix_stream = 0x31;
  std::size_t block = 0;
  switch (byte_at(header, 13)) {
    case unspecified: break;
    case tcp4: block = ipv4_block; break;
    case tcp6: block = ipv6_block; break;
    case unix_stream: block = unix_block; break;
    default: return malformed("a version 2 header names no stream protocol");
  }
  if (header.size() < v2_fixed + block) return malformed("a version 2 header is too short for its addresses");
  // Without an address family the size of the addresses is unknown, so nothing after them can be checked.
  if (block == 0) return whole(Source::unknown, header.size());
  if (const auto wrong = wrong_extras(header, v2_fixed + block)) return malformed(*wrong);
  ProxyHeaderRead read = whole(block == unix_block ? Source::unknown : Source::client, header.size());
  const char* client = header.data() + v2_fixed;
  const auto port = [header](std::size_t at) { return static_cast<std::uint16_t>(number_at(header, v2_fixed + at)); };
  if (block == ipv4_block) set_ipv4(read.header.address, client, port(8));
  if (block == ipv6_block) set_ipv6(read.header.address, client, port(32));
  return read;
}

ProxyHeaderRead read_v2(std::string_view bytes) {
  if (bytes.size() > 12) {
    constexpr std::uint8_t local = 0x20;
    constexpr std::uint8_t proxied = 0x21;
    const std::uint8_t version_and_command = byte_at(bytes, 12);
    if (version_and_command != local && version_and_command != proxied) {
      return malformed("a version 2 header has another version or an unknown command");
    }
    if (bytes.size() < v2_fixed) return {};
    const std::size_t size = v2_fixed + number_at(bytes, 14);
    if (size > longest_proxy_header) return malformed("a version 2 header is too long");
    if (bytes.size() < size) return {};
    if (version_and_command == local) return whole(Source::proxy, size);
    return read_v2_addresses(bytes.substr(0, size));
  }
  return {};
}

}  // namespace

ProxyHeaderRead read_proxy_header(std::string_view bytes) {
  const bool version_1 = agree(bytes, v1_start);
  const bool version_2 = agree(bytes, v2_start);
  if (!version_1 && !version_2) return malformed("there is no PROXY protocol header");
  if (version_1 && bytes.size() > v1_start.size()) return read_v1(bytes);
  if (version_2 && bytes.size() >= v2_start.size()) return read_v2(bytes);
  return {};
}

}  // namespace once::http
