// The PROXY protocol, versions 1 and 2: a header at the beginning of a connection, in which a TCP load balancer names
// the client's address. gateway/worker.cpp decides which peers may send it.
// https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/layers.hpp"

namespace once::http {

// Longer headers are refused: addresses take up to 232 bytes, the rest is for extensions, which are skipped.
inline constexpr std::size_t longest_proxy_header = 4096;

struct ProxyHeader {
  enum class Source : std::uint8_t {
    client,   // its address is in `address`
    proxy,    // the proxy's own connection, such as a health check: its peer is the client
    unknown,  // a client whose address the proxy does not know, or that has none (a Unix socket)
  };

  Source source = Source::unknown;
  sockaddr_storage address{};  // AF_INET or AF_INET6; AF_UNSPEC unless `source` is client
  std::size_t size = 0;        // of the header; the client's bytes follow
};

struct ProxyHeaderRead {
  enum class Kind : std::uint8_t { whole, incomplete, malformed };

  Kind kind = Kind::incomplete;
  ProxyHeader header;
  std::string_view problem;  // why it is malformed
};

// Parses the first bytes of a connection. Reports a malformed header as early as possible.
ProxyHeaderRead read_proxy_header(std::string_view bytes);

}  // namespace once::http
