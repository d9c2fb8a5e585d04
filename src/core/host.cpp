#include "core/host.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/headers.hpp"

namespace once::core {

namespace {

// Space for an address such as [::1] with its brackets.
using Literal = std::array<char, INET6_ADDRSTRLEN + 2>;

// The address in the notation of RFC 5952, with brackets; `name` itself if it is no address.
std::string_view shortest_literal(std::string_view name, Literal& into) {
  Literal text{};
  in6_addr address{};
  if (name.size() < 4 || name.size() > text.size() || name.front() != '[' || name.back() != ']') return name;
  std::memcpy(text.data(), name.data() + 1, name.size() - 2);
  if (::inet_pton(AF_INET6, text.data(), &address) != 1) return name;
  into.front() = '[';
  if (::inet_ntop(AF_INET6, &address, into.data() + 1, INET6_ADDRSTRLEN) == nullptr) return name;
  const std::size_t end = std::strlen(into.data());
  into[end] = ']';
  return {into.data(), end + 1};
}

}  // namespace

std::string_view normalise_host(std::string_view host, std::string& scratch) {
  const std::size_t bracket = host.find(']');  // colons before it belong to an IPv6 address
  const std::size_t colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  std::string_view name = host.substr(0, colon);
  std::string_view port = colon == std::string_view::npos ? std::string_view() : host.substr(colon + 1);
  while (port.size() > 1 && port.starts_with('0')) port.remove_prefix(1);  // port 0 is kept: it is not the default
  if (port == "80" || port == "443") port = {};
  if (name.ends_with('.')) name.remove_suffix(1);
  if (name.starts_with('[')) {
    Literal literal{};
    if (const std::string_view shortest = shortest_literal(name, literal); shortest != name) {
      scratch.assign(shortest);
      if (!port.empty()) scratch.append(":").append(port);
      return scratch;
    }
  }
  const bool lower = std::ranges::none_of(name, [](char c) { return c >= 'A' && c <= 'Z'; });
  if (lower && port.empty()) return name;
  if (lower && name.size() + 1 + port.size() == host.size()) return host;
  scratch.clear();
  for (const char c : name) scratch.push_back(to_lower(c));
  if (!port.empty()) scratch.append(":").append(port);
  return scratch;
}

}  // namespace once::core
