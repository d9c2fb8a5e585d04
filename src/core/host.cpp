#include "core/host.hpp"

#include <algorithm>

#include "core/headers.hpp"

namespace once {

std::string_view normalise_host(std::string_view host, std::string& scratch) {
  const std::size_t bracket = host.find(']');  // the colons before it belong to an IPv6 address
  const std::size_t colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  std::string_view name = host.substr(0, colon);
  std::string_view port = colon == std::string_view::npos ? std::string_view() : host.substr(colon + 1);
  while (port.size() > 1 && port.starts_with('0')) port.remove_prefix(1);  // port 0 is a port of its own
  if (port == "80" || port == "443") port = {};
  if (name.ends_with('.')) name.remove_suffix(1);
  const bool lower = std::ranges::none_of(name, [](char c) { return c >= 'A' && c <= 'Z'; });
  if (lower && port.empty()) return name;
  if (lower && name.size() + 1 + port.size() == host.size()) return host;
  scratch.clear();
  for (const char c : name) scratch.push_back(to_lower(c));
  if (!port.empty()) scratch.append(":").append(port);
  return scratch;
}

}  // namespace once
