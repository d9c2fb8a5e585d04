// IP addresses without ports: of peers, in X-Forwarded-For, and of trusted networks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/layers.hpp"

namespace once::http {

// Sixteen bytes. IPv4 is stored as IPv4-mapped IPv6, so that both spellings of an address are equal.
struct IpAddress {
  std::array<std::uint8_t, 16> bytes{};

  bool operator==(const IpAddress&) const = default;

  bool is_ipv4() const;
  std::string text() const;  // the shortest spelling; IPv4 for mapped ones
  static IpAddress of_ipv4(std::uint32_t number);
  // Numeric only. No port, no brackets, no zone.
  static std::optional<IpAddress> parse(std::string_view text);
};

// The name of a Unix socket's peer where an address is expected.
inline constexpr std::string_view unix_peer = "unix";
// The name of a peer without a known address. It is never a trusted proxy.
inline constexpr std::string_view unknown_peer = "unknown";

class AddressSet {
 public:
  // "10.0.0.0/8", "2001:db8::/32", one address, or "unix". Adds nothing and returns false for anything else, and for a
  // network with bits beyond its prefix.
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

// The client's address, behind trusted proxies. `peer` is the numeric address of the connection's peer, or "unix";
// `forwarded` has the X-Forwarded-For lines in order. Walks X-Forwarded-For from the right while the current address is
// trusted. An entry that is not an address (with or without a port) ends the walk, and the last trusted proxy is the
// result. nullopt: a Unix socket without a usable X-Forwarded-For.
std::optional<IpAddress> client_address(std::string_view peer, std::vector<std::string_view> forwarded,
                                        const AddressSet& trusted);

}  // namespace once::http
