#include "core/route_label.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace once::core {

namespace {

constexpr char separator = '\t';
constexpr char other_method = 'X';
constexpr char hex_id = 'h';
constexpr char uuid_id = 'u';
constexpr char text_id = 't';
constexpr std::size_t longest_id = 64;
constexpr std::size_t longest_method = 32;
constexpr std::size_t hex_digits = 32;
constexpr char none_same = '!';
constexpr std::size_t most_same = '~' - none_same;
constexpr std::size_t packed_id = 22;  // 128 bits, six per character
constexpr std::array<std::size_t, 4> dashes = {8, 13, 18, 23};
constexpr std::size_t uuid_size = hex_digits + dashes.size();
constexpr std::array<std::pair<std::string_view, char>, 7> letters = {
    {{"GET", 'G'}, {"HEAD", 'H'}, {"POST", 'P'}, {"PUT", 'U'}, {"PATCH", 'A'}, {"DELETE", 'D'}, {"QUERY", 'Q'}}};
constexpr std::string_view hex = "0123456789abcdef";
constexpr std::string_view base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

bool is_dash(std::size_t place) {
  return std::ranges::find(dashes, place) != dashes.end();
}

// h, u or t: the format of this id.
char form_of(std::string_view id) {
  if (id.size() != hex_digits && id.size() != uuid_size) return text_id;
  const bool uuid = id.size() == uuid_size;
  for (std::size_t i = 0; i < id.size(); ++i) {
    if (uuid && is_dash(i) ? id[i] != '-' : !hex.contains(id[i])) return text_id;
  }
  return uuid ? uuid_id : hex_id;
}

void append_packed(std::string& out, std::string_view id) {
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : id) {
    if (c == '-') continue;
    bits = bits << 4U | static_cast<std::uint32_t>(hex.find(c));
    count += 4;
    if (count < 6) continue;
    count -= 6;
    out.push_back(base64url[bits >> static_cast<unsigned>(count) & 63U]);
  }
  out.push_back(base64url[bits << static_cast<unsigned>(6 - count) & 63U]);
}

std::string unpacked(std::string_view packed, char form) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : packed) {
    const std::size_t value = base64url.find(c);
    if (value == std::string_view::npos) return "";
    bits = bits << 6U | static_cast<std::uint32_t>(value);
    for (count += 6; count >= 4 && out.size() < (form == uuid_id ? uuid_size : hex_digits);) {
      if (form == uuid_id && is_dash(out.size())) out.push_back('-');
      count -= 4;
      out.push_back(hex[bits >> static_cast<unsigned>(count) & 15U]);
    }
  }
  return out;
}

void append_visible(std::string& out, std::string_view text) {
  for (const char c : text) out.push_back(c > ' ' && c < '\x7f' ? c : '?');
}

// A label may begin with the hosts of its route; the pattern begins at the first slash.
std::string_view pattern_in(std::string_view route) {
  return route.substr(std::min(route.find('/'), route.size()));
}

std::size_t same_bytes(std::string_view route, std::string_view path) {
  const std::string_view pattern = pattern_in(route);
  const auto same = static_cast<std::size_t>(std::ranges::mismatch(pattern, path).in1 - pattern.begin());
  return std::min(same, most_same);
}

// Removes and returns the first word, with the space after it.
std::string_view take_word(std::string_view& rest) {
  const std::string_view word = rest.substr(0, rest.find(' '));
  rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  return word;
}

char take_letter(std::string_view& rest) {
  if (rest.empty()) return '\0';
  const char letter = rest.front();
  rest.remove_prefix(1);
  return letter;
}

}  // namespace

void write_route_label(std::string& out, const LabelledRequest& request) {
  out.assign(request.route.substr(0, longest_route_label));
  if (request.method.empty()) return;
  out.push_back(separator);
  const auto letter = std::ranges::find(letters, request.method, &std::pair<std::string_view, char>::first);
  if (letter != letters.end()) {
    out.push_back(letter->second);
  } else {
    out.push_back(other_method);
    append_visible(out, request.method.substr(0, longest_method));
    out.push_back(' ');
  }
  const char form = form_of(request.request_id);
  out.push_back(form);
  if (form == text_id) {
    append_visible(out, request.request_id.substr(0, longest_id));
    out.push_back(' ');
  } else {
    append_packed(out, request.request_id);
  }
  const std::size_t same = same_bytes(request.route, request.path);
  out.push_back(static_cast<char>(none_same + static_cast<int>(same)));
  const std::size_t room = longest_route_label - std::min(out.size(), longest_route_label);
  append_visible(out, request.path.substr(same, room));
  // A truncated id is useless: leave it out completely.
  if (out.size() > longest_route_label) out.resize(out.find(separator));
}

LabelParts parts_of(std::string_view label) {
  const std::size_t at = label.find(separator);
  if (at == std::string_view::npos) return {.route = label, .request = {}};
  return {.route = label.substr(0, at), .request = label.substr(at + 1)};
}

// The label of a scope may itself contain tabs.
std::string_view route_in(std::string_view label) {
  return details_in(label) ? parts_of(label).route : label;
}

std::optional<RequestDetails> details_in(std::string_view label) {
  auto [route, rest] = parts_of(label);
  const char method = take_letter(rest);
  const auto letter = std::ranges::find(letters, method, &std::pair<std::string_view, char>::second);
  if (letter == letters.end() && method != other_method) return std::nullopt;
  RequestDetails details;
  details.method = letter != letters.end() ? letter->first : take_word(rest);
  const char form = take_letter(rest);
  if (form == text_id) {
    details.request_id = take_word(rest);
  } else if ((form == hex_id || form == uuid_id) && rest.size() >= packed_id) {
    details.request_id = unpacked(rest.substr(0, packed_id), form);
    rest.remove_prefix(packed_id);
  } else {
    return std::nullopt;
  }
  const auto same = static_cast<std::size_t>(static_cast<unsigned char>(take_letter(rest)) - none_same);
  if (same > most_same) return std::nullopt;
  details.path.assign(pattern_in(route).substr(0, same)).append(rest);
  return details;
}

}  // namespace once::core
