// The PROXY protocol, versions 1 and 2: the header in which a load balancer that only passes bytes on says whose
// connection it is, before anything else. Who may say so is decided elsewhere (gateway/worker.cpp).
// https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/layers.hpp"

namespace once::http {

// Longer ones are refused: addresses take up to 232 bytes, the rest is for what is skipped.
inline constexpr std::size_t longest_proxy_header = 4096;

struct ProxyHeader {
  enum class Source : std::uint8_t {
    client,   // its address is in `address`
    proxy,    // the proxy's own connection, a health check: the peer of the connection counts
    unknown,  // a client whose address the proxy does not know, or that has none (a Unix socket)
  };

  Source source = Source::unknown;
  sockaddr_storage address{};  // AF_INET or AF_INET6; AF_UNSPEC unless `source` is client
  std::size_t size = 0;        // of the header: what follows is the client's
};

struct ProxyHeaderRead {
  enum class Kind : std::uint8_t { whole, incomplete, malformed };

  Kind kind = Kind::incomplete;
  ProxyHeader header;
  std::string_view problem;  // why it is malformed
};

// Of the first bytes of a connection. What cannot become a header is malformed as soon as that is clear.
ProxyHeaderRead read_proxy_header(std::string_view bytes);

}  // namespace once::http
