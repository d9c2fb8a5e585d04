// Addresses without ports, as numbers: of peers, in X-Forwarded-For, and the networks that an operator trusts.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/layers.hpp"

namespace once::http {

// Sixteen bytes; IPv4 is held as IPv4-mapped IPv6, so that both spellings of an address are one.
struct IpAddress {
  std::array<std::uint8_t, 16> bytes{};

  bool operator==(const IpAddress&) const = default;

  bool is_ipv4() const;
  std::string text() const;  // the shortest spelling; IPv4 for mapped ones
  static IpAddress of_ipv4(std::uint32_t number);
  // Numeric only. No port, no brackets, no zone.
  static std::optional<IpAddress> parse(std::string_view text);
};

// How the peer of a Unix socket is called where an address is expected.
inline constexpr std::string_view unix_peer = "unix";
// And one of whom nothing is known: never a proxy that is trusted.
inline constexpr std::string_view unknown_peer = "unknown";

class AddressSet {
 public:
  // "10.0.0.0/8", "2001:db8::/32", one address, or "unix". False, and nothing added, if it is none of these or has bits
  // past its prefix.
  bool add(std::string_view text);

  bool empty() const { return networks_.empty() && !has_unix_; }
  bool contains(const IpAddress& address) const;
  bool contains_unix() const { return has_unix_; }

 private:
  struct Network {
    IpAddress address;
    unsigned prefix;  // bits, of 128
  };
  std::vector<Network> networks_;
  bool has_unix_ = false;
};

// Whose request it is, seen through proxies. `peer` is the numeric address at the other end of the connection, or
// "unix"; `forwarded` the X-Forwarded-For lines in their order. While the address at hand is trusted, the one that it
// says it got the request from is next, from the right. What is not an address (a port behind it is fine) ends that:
// the trusted proxy that passed it on counts. nullopt: a Unix socket, and nothing better is known.
std::optional<IpAddress> client_address(std::string_view peer, std::vector<std::string_view> forwarded,
                                        const AddressSet& trusted);

}  // namespace once::http
