// Addresses: where to listen and where to connect. Name resolution blocks: never on a loop.
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
// Who is at the other end: a numeric address without its port, IPv4 for IPv4-mapped IPv6; "unix" for a Unix socket;
// "unknown" for a client whose address a proxy did not know (proxy_protocol.hpp).
std::string peer_text(const sockaddr_storage& address);
// Nothing for a peer that has none.
std::optional<IpAddress> ip_address(const sockaddr_storage& address);
bool contains(const AddressSet& set, const sockaddr_storage& address);

// Whether it is an address already and needs no resolving.
bool is_numeric(const std::string& host);
Result<std::vector<Endpoint>> resolve(const std::string& host, const std::string& port);
// "127.0.0.1:8080", "[::1]:8080", "localhost:0"
Result<Endpoint> resolve_listener(std::string_view address);

// Listening descriptors on one address, so that every loop can have its own. They share it by SO_REUSEPORT, which
// would let a second process in as well: an address in use by anyone else is refused first.
Result<std::vector<int>> listen_on(const Endpoint& endpoint, unsigned count);
// At least `count` descriptors of these sockets, which listen already; each loop can have its own.
Result<std::vector<int>> share_listeners(std::vector<int> sockets, unsigned count);
// Where a descriptor really listens: the port, if it was asked for as 0.
Endpoint bound_endpoint(int fd);

// A Unix socket that user and group may use (0660). A file that a dead process left there is replaced; one that
// somebody listens on, or that is no socket, is not.
Result<int> listen_on_unix(const std::string& path);

// Of a Unix socket, or an error if the path is longer than the system takes.
Result<Endpoint> unix_endpoint(const std::string& path);

// The process, or the system, has as many open as it may.
bool is_out_of_descriptors(int error);
std::string error_text(int error);

// Who is at the other end, as far as limits are concerned: an IPv4 address, or the first 64 bits of an IPv6 one, within
// which anybody can have as many as they like.
struct PeerNetwork {
  std::array<std::uint8_t, 16> bytes{};
  bool operator==(const PeerNetwork&) const = default;
};
PeerNetwork network_of(const sockaddr_storage& address);
PeerNetwork network_of(const IpAddress& address);

}  // namespace once::http
