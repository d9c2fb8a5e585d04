#include "core/json_text.hpp"

#include <cstdint>

namespace once::core {

namespace {

constexpr std::string_view replacement = "\xef\xbf\xbd";  // U+FFFD

void append_escaped(std::string& out, char c) {
  static constexpr std::string_view hex = "0123456789abcdef";
  switch (c) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\b': out += "\\b"; return;
    case '\f': out += "\\f"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default: break;
  }
  out += "\\u00";
  out += hex[static_cast<unsigned char>(c) >> 4U];
  out += hex[static_cast<unsigned char>(c) & 15U];
}

}  // namespace

std::size_t utf8_sequence(std::string_view text) {
  const auto byte = [text](std::size_t i) -> std::uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto continues = [&byte](std::size_t i) { return (byte(i) & 0xc0U) == 0x80U; };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return text.empty() ? 0 : 1;
  if (lead < 0xc2) return 0;  // a continuation byte, or an overlong encoding of ASCII
  if (lead < 0xe0) return continues(1) ? 2 : 0;
  if (lead < 0xf0) {
    if (!continues(1) || !continues(2)) return 0;
    if (lead == 0xe0 && byte(1) < 0xa0) return 0;   // overlong
    if (lead == 0xed && byte(1) >= 0xa0) return 0;  // a surrogate
    return 3;
  }
  if (lead > 0xf4 || !continues(1) || !continues(2) || !continues(3)) return 0;
  if (lead == 0xf0 && byte(1) < 0x90) return 0;   // overlong
  if (lead == 0xf4 && byte(1) >= 0x90) return 0;  // past U+10FFFF
  return 4;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = utf8_sequence(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xc0 | (code_point >> 6U));
    put(0x80 | (code_point & 0x3fU));
  } else if (code_point < 0x10000) {
    put(0xe0 | (code_point >> 12U));
    put(0x80 | ((code_point >> 6U) & 0x3fU));
    put(0x80 | (code_point & 0x3fU));
  } else {
    put(0xf0 | (code_point >> 18U));
    put(0x80 | ((code_point >> 12U) & 0x3fU));
    put(0x80 | ((code_point >> 6U) & 0x3fU));
    put(0x80 | (code_point & 0x3fU));
  }
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  std::size_t run = 0;  // the start of the text not yet copied: most text is copied in one piece
  std::size_t i = 0;
  while (i < text.size()) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool must_escape = byte == '"' || byte == '\\' || byte < 0x20;
    const std::size_t length = must_escape ? 0 : byte < 0x80 ? 1 : utf8_sequence(text.substr(i));
    if (length > 0) {
      i += length;
      continue;
    }
    out += text.substr(run, i - run);
    if (must_escape) {
      append_escaped(out, text[i]);
    } else {
      out += replacement;
    }
    run = ++i;
  }
  out += text.substr(run);
  out += '"';
}

}  // namespace once::core
