#include "http/address_set.hpp"

#include <arpa/inet.h>

#include <algorithm>

#include "base/text.hpp"

namespace once::http {

namespace {

constexpr std::array<std::uint8_t, 12> ipv4_prefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr unsigned mapped_bits = 96;
constexpr unsigned all_bits = 128;

// The address in "[::1]:80", "[::1]" or "1.2.3.4:80", which some proxies write.
std::string_view without_port(std::string_view entry) {
  if (entry.starts_with('[')) {
    const std::size_t end = entry.find(']');
    if (end == std::string_view::npos) return {};
    const std::string_view rest = entry.substr(end + 1);
    if (!rest.empty() && (!rest.starts_with(':') || !parse_number(rest.substr(1)))) return {};
    const std::string_view address = entry.substr(1, end - 1);
    return address.contains(':') ? address : std::string_view();
  }
  const std::size_t colon = entry.find(':');
  if (colon == std::string_view::npos || colon != entry.rfind(':')) return entry;
  return parse_number(entry.substr(colon + 1)) ? entry.substr(0, colon) : std::string_view();
}

bool same_prefix(const IpAddress& left, const IpAddress& right, unsigned bits) {
  const std::size_t whole = bits / 8;
  if (!std::equal(left.bytes.begin(), left.bytes.begin() + static_cast<std::ptrdiff_t>(whole), right.bytes.begin())) {
    return false;
  }
  const unsigned rest = bits % 8;
  if (rest == 0) return true;
  const auto mask = static_cast<std::uint8_t>(0xffU << (8 - rest));
  return (left.bytes[whole] & mask) == (right.bytes[whole] & mask);
}

bool nothing_past(const IpAddress& address, unsigned bits) {
  for (unsigned bit = bits; bit < all_bits; ++bit) {
    if ((address.bytes[bit / 8] & (0x80U >> (bit % 8))) != 0) return false;
  }
  return true;
}

}  // namespace

bool IpAddress::is_ipv4() const {
  return std::equal(ipv4_prefix.begin(), ipv4_prefix.end(), bytes.begin());
}

std::string IpAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> room{};
  const bool ipv4 = is_ipv4();
  const void* from = bytes.data() + (ipv4 ? ipv4_prefix.size() : 0);
  const char* written = ::inet_ntop(ipv4 ? AF_INET : AF_INET6, from, room.data(), room.size());
  return written == nullptr ? "" : written;
}

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  std::array<char, INET6_ADDRSTRLEN> copy{};  // zero-terminated
  if (text.size() >= copy.size() || text.contains('\0')) return std::nullopt;
  std::ranges::copy(text, copy.begin());
  IpAddress address;
  if (::inet_pton(AF_INET6, copy.data(), address.bytes.data()) == 1) return address;
  in_addr ipv4{};
  if (::inet_pton(AF_INET, copy.data(), &ipv4) != 1) return std::nullopt;
  return of_ipv4(ntohl(ipv4.s_addr));
}

IpAddress IpAddress::of_ipv4(std::uint32_t number) {
  IpAddress address;
  std::ranges::copy(ipv4_prefix, address.bytes.begin());
  for (std::size_t i = ipv4_prefix.size(); i < address.bytes.size(); ++i) {
    address.bytes[i] = static_cast<std::uint8_t>(number >> (8 * (address.bytes.size() - 1 - i)));
  }
  return address;
}

bool AddressSet::add(std::string_view text) {
  if (text == unix_peer) {
    has_unix_ = true;
    return true;
  }
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::string_view host = text.substr(0, slash);
  const auto address = IpAddress::parse(host);
  if (!address) return false;
  unsigned prefix = all_bits;
  if (slash < text.size()) {
    const unsigned before = host.contains(':') ? 0 : mapped_bits;
    const auto bits = parse_number(text.substr(slash + 1));
    if (!bits || *bits > all_bits - before) return false;
    prefix = before + static_cast<unsigned>(*bits);
  }
  if (!nothing_past(*address, prefix)) return false;
  networks_.push_back({.address = *address, .prefix = prefix});
  return true;
}

bool AddressSet::contains(const IpAddress& address) const {
  return std::ranges::any_of(
      networks_, [&](const Network& network) { return same_prefix(network.address, address, network.prefix); });
}

std::optional<IpAddress> client_address(std::string_view peer, std::vector<std::string_view> forwarded,
                                        const AddressSet& trusted) {
  std::optional<IpAddress> at = IpAddress::parse(peer);
  const auto is_trusted = [&] { return at ? trusted.contains(*at) : peer == unix_peer && trusted.contains_unix(); };
  while (!forwarded.empty() && is_trusted()) {
    std::string_view& line = forwarded.back();
    const std::size_t comma = line.rfind(',');
    const std::string_view entry = trim(comma == std::string_view::npos ? line : line.substr(comma + 1));
    const auto next = IpAddress::parse(without_port(entry));
    if (!next) break;
    at = next;
    if (comma == std::string_view::npos) {
      forwarded.pop_back();
    } else {
      line = line.substr(0, comma);
    }
  }
  return at;
}

}  // namespace once::http
