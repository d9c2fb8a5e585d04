// Sockets on this machine, for tests that stand between a client and its server, or play the server.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "base/assert.hpp"
#include "base/descriptor.hpp"
#include "tests/unit/support/layers.hpp"

namespace once::support {

inline sockaddr_in loopback_address(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// Connections are taken, and nobody says a word.
class LoopbackListener {
 public:
  LoopbackListener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = loopback_address(0);
    socklen_t size = sizeof address;
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    ONCE_ASSERT(::bind(socket_.get(), plain, size) == 0 && ::listen(socket_.get(), 16) == 0);
    ONCE_ASSERT(::getsockname(socket_.get(), plain, &size) == 0);
    port_ = ntohs(address.sin_port);
  }

  std::uint16_t port() const { return port_; }
  int descriptor() const { return socket_.get(); }
  // Not open after close().
  Descriptor accept() const { return Descriptor(::accept(socket_.get(), nullptr, nullptr)); }
  void close() const { ::shutdown(socket_.get(), SHUT_RDWR); }

 private:
  Descriptor socket_;
  std::uint16_t port_ = 0;
};

// Not open if nobody listens.
inline Descriptor connect_to_loopback(std::uint16_t port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback_address(port);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return Descriptor();
  return socket;
}

}  // namespace once::support
