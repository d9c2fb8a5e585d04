// Headers of the PROXY protocol: one that is taken ends where it says, is the same whatever follows and however it
// comes in, and names an address or none.
#include <string>

#include "http/proxy_protocol.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using once::http::ProxyHeader;
using once::http::ProxyHeaderRead;
using once::http::read_proxy_header;
using Kind = ProxyHeaderRead::Kind;

bool same(const ProxyHeader& one, const ProxyHeader& other) {
  return one.source == other.source && one.size == other.size &&
         std::memcmp(&one.address, &other.address, sizeof one.address) == 0;
}

}  // namespace

FUZZ(bytes) {
  const ProxyHeaderRead read = read_proxy_header(bytes);
  if (read.kind != Kind::whole) {
    ONCE_ASSERT(read.kind == Kind::incomplete || !read.problem.empty());
    // An incomplete header is shorter than the longest one: nobody waits for more than that.
    ONCE_ASSERT(read.kind == Kind::malformed || bytes.size() < once::http::longest_proxy_header);
    return;
  }
  const ProxyHeader& header = read.header;
  ONCE_ASSERT(header.size > 0 && header.size <= bytes.size() && header.size <= once::http::longest_proxy_header);
  const bool has_address = header.address.ss_family == AF_INET || header.address.ss_family == AF_INET6;
  ONCE_ASSERT(has_address == (header.source == ProxyHeader::Source::client));
  ONCE_ASSERT(has_address || header.address.ss_family == AF_UNSPEC);
  for (std::size_t part = 0; part < header.size; ++part) {
    ONCE_ASSERT(read_proxy_header(bytes.substr(0, part)).kind == Kind::incomplete);
  }
  const ProxyHeaderRead followed = read_proxy_header(std::string(bytes.substr(0, header.size)) + "GET / HTTP/1.1\r\n");
  ONCE_ASSERT(followed.kind == Kind::whole && same(followed.header, header));
}
