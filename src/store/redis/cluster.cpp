#include "store/redis/cluster.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace once::redis {

namespace {

// CRC-16/XMODEM.
constexpr std::array<std::uint16_t, 256> crc_table = [] {
  std::array<std::uint16_t, 256> table{};
  for (unsigned byte = 0; byte < table.size(); ++byte) {
    unsigned crc = byte << 8U;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000U) != 0 ? (crc << 1U) ^ 0x1021U : crc << 1U;
    table[byte] = static_cast<std::uint16_t>(crc);
  }
  return table;
}();

unsigned add_to_crc(unsigned crc, char byte) {
  return ((crc << 8U) & 0xffffU) ^ crc_table[((crc >> 8U) ^ static_cast<std::uint8_t>(byte)) & 0xffU];
}

// The part of a key that determines its slot.
std::string_view hashed_part(std::string_view key) {
  const std::size_t open = key.find('{');
  if (open == std::string_view::npos) return key;
  const std::size_t close = key.find('}', open + 1);
  return close == std::string_view::npos || close == open + 1 ? key : key.substr(open + 1, close - open - 1);
}

std::optional<std::uint16_t> number_of(const redisReply& reply, std::uint64_t limit) {
  if (reply.type != REDIS_REPLY_INTEGER || reply.integer < 0 || static_cast<std::uint64_t>(reply.integer) >= limit) {
    return std::nullopt;
  }
  return static_cast<std::uint16_t>(reply.integer);
}

// A node that does not know its own address omits it: then it is the address that was asked.
std::optional<StoreHost> read_host(const redisReply& node, const StoreHost& asked) {
  if (!is_array(node) || node.elements < 2) return std::nullopt;
  const auto port = number_of(*node.element[1], 65'536);
  if (!port || *port == 0) return std::nullopt;
  const std::string_view name = is_text(*node.element[0]) ? text_of(*node.element[0]) : std::string_view();
  return StoreHost{.name = name.empty() || name == "?" ? asked.name : std::string(name), .port = *port};
}

}  // namespace

bool has_hash_tag(std::string_view prefix) {
  return hashed_part(prefix).size() != prefix.size();
}

std::uint16_t slot_of(std::string_view key) {
  unsigned crc = 0;
  for (const char byte : hashed_part(key)) crc = add_to_crc(crc, byte);
  return static_cast<std::uint16_t>(crc % slot_count);
}

std::uint16_t slot_of(std::string_view prefix, const OperationId& id) {
  const std::string_view hashed = hashed_part(prefix);
  unsigned crc = 0;
  for (const char byte : hashed) crc = add_to_crc(crc, byte);
  if (!has_hash_tag(prefix)) {
    constexpr std::string_view digits = "0123456789abcdef";
    for (const std::uint8_t byte : id.bytes) {
      crc = add_to_crc(crc, digits[byte >> 4U]);
      crc = add_to_crc(crc, digits[byte & 15U]);
    }
  }
  return static_cast<std::uint16_t>(crc % slot_count);
}

std::optional<Layout> read_layout(const redisReply& reply, const StoreHost& asked) {
  if (!is_array(reply) || reply.elements == 0) return std::nullopt;
  Layout layout;
  layout.owners.assign(slot_count, no_owner);
  for (std::size_t i = 0; i < reply.elements; ++i) {
    const redisReply& range = *reply.element[i];
    if (!is_array(range) || range.elements < 3) return std::nullopt;
    const auto first = number_of(*range.element[0], slot_count);
    const auto last = number_of(*range.element[1], slot_count);
    const auto host = read_host(*range.element[2], asked);
    if (!first || !last || *first > *last || !host) return std::nullopt;
    auto found = std::ranges::find(layout.nodes, *host);
    if (found == layout.nodes.end()) found = layout.nodes.insert(found, *host);
    const auto index = static_cast<std::uint16_t>(found - layout.nodes.begin());
    std::fill(layout.owners.begin() + *first, layout.owners.begin() + *last + 1, index);
  }
  return layout;
}

std::optional<Redirection> read_redirection(std::string_view error, const StoreHost& asked) {
  const auto words = split(error, ' ');
  if (words.size() < 3 || (words[0] != "MOVED" && words[0] != "ASK")) return std::nullopt;
  const std::size_t colon = words[2].rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = parse_number(words[2].substr(colon + 1));
  if (!port || *port == 0 || *port > 65'535) return std::nullopt;
  const std::string_view name = words[2].substr(0, colon);
  return Redirection{.ask = words[0] == "ASK",
                     .to = {.name = name.empty() || name == "?" ? asked.name : std::string(name),
                            .port = static_cast<std::uint16_t>(*port)}};
}

}  // namespace once::redis
