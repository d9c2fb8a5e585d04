// Addresses to listen on and to connect to. Name resolution blocks, so it must not run on a loop.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "http/address_set.hpp"

namespace once::http {

struct Endpoint {
  sockaddr_storage address{};
  socklen_t size = 0;

  std::string text() const;
};

std::string address_text(const sockaddr* address, socklen_t size);
// The peer as text: a numeric address without its port (IPv4 for IPv4-mapped IPv6), "unix" for a Unix socket, or
// "unknown" for a client whose address the proxy did not know (proxy_protocol.hpp).
std::string peer_text(const sockaddr_storage& address);
// The IP address of a peer; nullopt if it has none.
std::optional<IpAddress> ip_address(const sockaddr_storage& address);
bool contains(const AddressSet& set, const sockaddr_storage& address);

// Whether it is a numeric address, which needs no name resolution.
bool is_numeric(const std::string& host);
Result<std::vector<Endpoint>> resolve(const std::string& host, const std::string& port);
// "127.0.0.1:8080", "[::1]:8080", "localhost:0"
Result<Endpoint> resolve_listener(std::string_view address);

// Listening descriptors on one address, one per loop. They share it with SO_REUSEPORT. That would also let a second
// process listen there, so an address that is already in use is refused first.
Result<std::vector<int>> listen_on(const Endpoint& endpoint, unsigned count);
// At least `count` descriptors of these sockets, which are already listening: one per loop.
Result<std::vector<int>> share_listeners(std::vector<int> sockets, unsigned count);
// The actual address of a listening descriptor: with its port if port 0 was requested.
Endpoint bound_endpoint(int fd);

// A Unix socket for user and group (0660). Replaces a socket file without a listener, which a dead process left behind.
// A file that is in use, or is not a socket, is an error.
Result<int> listen_on_unix(const std::string& path);

// The address of a Unix socket. An error if the path is longer than the system allows.
Result<Endpoint> unix_endpoint(const std::string& path);

// The process or the system is out of file descriptors.
bool is_out_of_descriptors(int error);
std::string error_text(int error);

// The peer for the purpose of limits: an IPv4 address, or the first 64 bits of an IPv6 address, because one client can
// use any address within its /64.
struct PeerNetwork {
  std::array<std::uint8_t, 16> bytes{};
  bool operator==(const PeerNetwork&) const = default;
};
PeerNetwork network_of(const sockaddr_storage& address);
PeerNetwork network_of(const IpAddress& address);

}  // namespace once::http
