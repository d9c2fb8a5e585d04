#include "http/endpoint.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "base/descriptor.hpp"
#include "http/address_set.hpp"

namespace once::http {

namespace {

std::unexpected<Error> system_error(std::string_view what, int error) {
  return std::unexpected(Error{.source = ErrorSource::system,
                               .retryable = Retryable::no,
                               .detail = fmt::format("{}: {}", what, error_text(error))});
}

void set_option(int fd, int level, int option) {
  const int on = 1;
  ::setsockopt(fd, level, option, &on, sizeof on);
}

enum class Sharing : std::uint8_t { no, yes };

Result<int> bind_to(const Endpoint& endpoint, Sharing sharing) {
  const int fd = ::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return system_error("socket", errno);
  set_option(fd, SOL_SOCKET, SO_REUSEADDR);
  if (sharing == Sharing::yes) set_option(fd, SOL_SOCKET, SO_REUSEPORT);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&endpoint.address), endpoint.size) != 0) {
    const int error = errno;
    ::close(fd);
    return system_error(fmt::format("cannot listen on {}", endpoint.text()), error);
  }
  return fd;
}

}  // namespace

PeerNetwork network_of(const IpAddress& address) {
  constexpr std::size_t network_bytes = 8;
  PeerNetwork network;
  std::memcpy(network.bytes.data(), address.bytes.data(), address.is_ipv4() ? network.bytes.size() : network_bytes);
  return network;
}

PeerNetwork network_of(const sockaddr_storage& address) {
  PeerNetwork network;
  if (address.ss_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &address, sizeof four);
    network.bytes[10] = network.bytes[11] = 0xff;  // in the IPv6 notation of IPv4
    std::memcpy(network.bytes.data() + 12, &four.sin_addr, sizeof four.sin_addr);
  }
  if (address.ss_family == AF_INET6) {
    constexpr std::size_t network_bytes = 8;
    sockaddr_in6 six{};
    std::memcpy(&six, &address, sizeof six);
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&six.sin6_addr);
    std::memcpy(network.bytes.data(), &six.sin6_addr, mapped ? network.bytes.size() : network_bytes);
  }
  return network;
}

std::string address_text(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  const int failed =
      ::getnameinfo(address, size, host.data(), host.size(), port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV);
  if (failed != 0) return "?";
  return address->sa_family == AF_INET6 ? fmt::format("[{}]:{}", host.data(), port.data())
                                        : fmt::format("{}:{}", host.data(), port.data());
}

std::optional<IpAddress> ip_address(const sockaddr_storage& address) {
  IpAddress ip;
  switch (address.ss_family) {
    case AF_INET6: {
      const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address);
      std::memcpy(ip.bytes.data(), &ipv6.sin6_addr, sizeof ipv6.sin6_addr);
      return ip;
    }
    case AF_INET: {
      const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
      return IpAddress::of_ipv4(ntohl(ipv4.sin_addr.s_addr));
    }
    default: return std::nullopt;
  }
}

std::string peer_text(const sockaddr_storage& address) {
  if (const auto ip = ip_address(address)) return ip->text();
  return std::string(address.ss_family == AF_UNSPEC ? unknown_peer : unix_peer);
}

bool contains(const AddressSet& set, const sockaddr_storage& address) {
  if (const auto ip = ip_address(address)) return set.contains(*ip);
  return address.ss_family == AF_UNIX && set.contains_unix();
}

std::string Endpoint::text() const {
  if (address.ss_family == AF_UNIX)
    return fmt::format("unix:{}", reinterpret_cast<const sockaddr_un*>(&address)->sun_path);
  return address_text(reinterpret_cast<const sockaddr*>(&address), size);
}

bool is_numeric(const std::string& host) {
  in6_addr address{};
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 || ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

Result<std::vector<Endpoint>> resolve(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (failed != 0) {
    return std::unexpected(Error{.source = ErrorSource::system,
                                 .retryable = Retryable::no,
                                 .detail = fmt::format("cannot resolve {}: {}", host, ::gai_strerror(failed))});
  }
  std::vector<Endpoint> endpoints;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    Endpoint endpoint;
    std::memcpy(&endpoint.address, entry->ai_addr, entry->ai_addrlen);
    endpoint.size = entry->ai_addrlen;
    endpoints.push_back(endpoint);
  }
  ::freeaddrinfo(found);
  return endpoints;
}

Result<Endpoint> resolve_listener(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  std::string_view host = address.substr(0, colon == std::string_view::npos ? 0 : colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty()) {
    return std::unexpected(Error{.source = ErrorSource::config,
                                 .retryable = Retryable::no,
                                 .detail = fmt::format("expected HOST:PORT, got \"{}\"", address)});
  }
  auto endpoints = resolve(std::string(host), std::string(address.substr(colon + 1)));
  if (!endpoints) return std::unexpected(endpoints.error());
  return endpoints->front();
}

Endpoint bound_endpoint(int fd) {
  Endpoint endpoint;
  endpoint.size = sizeof endpoint.address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&endpoint.address), &endpoint.size);
  return endpoint;
}

Result<std::vector<int>> listen_on(const Endpoint& endpoint, unsigned count) {
  auto probe = bind_to(endpoint, Sharing::no);
  if (!probe) return std::unexpected(probe.error());
  const Endpoint bound = bound_endpoint(*probe);
  ::close(*probe);
  std::vector<int> listeners;
  for (unsigned i = 0; i < count; ++i) {
    const auto fd = bind_to(bound, Sharing::yes);
    if (!fd || ::listen(*fd, SOMAXCONN) != 0) {
      const auto error = fd ? system_error("listen", errno) : std::unexpected(fd.error());
      if (fd) ::close(*fd);
      for (const int open : listeners) ::close(open);
      return error;
    }
    listeners.push_back(*fd);
  }
  return listeners;
}

Result<std::vector<int>> share_listeners(std::vector<int> sockets, unsigned count) {
  const std::size_t given = sockets.size();
  for (std::size_t i = 0; sockets.size() < count; ++i) {
    const int copy = ::fcntl(sockets[i % given], F_DUPFD_CLOEXEC, 3);
    if (copy < 0) return system_error("cannot share a socket", errno);
    sockets.push_back(copy);
  }
  return sockets;
}

Result<Endpoint> unix_endpoint(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return std::unexpected(Error{
        .source = ErrorSource::config,
        .retryable = Retryable::no,
        .detail = fmt::format("the path of a socket has at most {} bytes: {}", sizeof address.sun_path - 1, path)});
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  Endpoint endpoint;
  std::memcpy(&endpoint.address, &address, sizeof address);
  endpoint.size = sizeof address;
  return endpoint;
}

Result<int> listen_on_unix(const std::string& path) {
  const auto endpoint = unix_endpoint(path);
  if (!endpoint) return std::unexpected(endpoint.error());
  const auto* where = reinterpret_cast<const sockaddr*>(&endpoint->address);
  const socklen_t size = endpoint->size;
  const std::string cannot = fmt::format("cannot listen on {}", path);
  Descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.open()) return system_error("socket", errno);
  if (::bind(listener.get(), where, size) != 0) {
    if (errno != EADDRINUSE) return system_error(cannot, errno);
    const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    // Refused means a socket file without a listener, which may be replaced. Anything else must stay.
    if (::connect(probe.get(), where, size) == 0) return system_error(cannot, EADDRINUSE);
    struct stat status{};
    const bool stale = errno == ECONNREFUSED && ::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
    if (!stale) return system_error(fmt::format("{}: the path exists and is not a socket", cannot), EADDRINUSE);
    ::unlink(path.c_str());
    if (::bind(listener.get(), where, size) != 0) return system_error(cannot, errno);
  }
  constexpr mode_t user_and_group = S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP;
  if (::chmod(path.c_str(), user_and_group) != 0 || ::listen(listener.get(), SOMAXCONN) != 0) {
    return system_error(cannot, errno);
  }
  return listener.release();
}

bool is_out_of_descriptors(int error) {
  return error == EMFILE || error == ENFILE;
}

std::string error_text(int error) {
  std::array<char, 128> text{};
  return ::strerror_r(error, text.data(), text.size());
}

}  // namespace once::http
