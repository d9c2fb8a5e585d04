// What holds for every head that was taken, request or response.
#pragma once

#include <algorithm>
#include <string>

#include "core/headers.hpp"
#include "http/head.hpp"
#include "tests/fuzz/input.hpp"

namespace once::fuzz {

inline bool lies_in(std::string_view view, std::string_view bytes) {
  return view.empty() || (view.data() >= bytes.data() && view.data() + view.size() <= bytes.data() + bytes.size());
}

inline bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (core::to_lower(c) >= 'a' && core::to_lower(c) <= 'z') ||
           std::string_view("!#$%&'*+-.^_`|~").contains(c);
  });
}

inline bool is_text(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
  });
}

inline std::size_t count(const http::Head& head, std::string_view name) {
  return static_cast<std::size_t>(
      std::ranges::count_if(head.fields, [&](const http::Field& field) { return core::same_name(field.name, name); }));
}

// Only one reader's opinion of where the body ends is possible: found here anew, from the fields.
inline http::Framing only_framing(const http::Head& head) {
  const std::size_t lengths = count(head, "content-length");
  const std::size_t codings = count(head, "transfer-encoding");
  ONCE_ASSERT(lengths + codings <= 1);
  if (codings == 1) {
    ONCE_ASSERT(core::same_name(*head.find("transfer-encoding"), "chunked") && head.version == http::Version::http_1_1);
    return {.kind = http::Framing::Kind::chunked};
  }
  if (lengths == 0) return {};
  const std::string_view text = *head.find("content-length");
  ONCE_ASSERT(!text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos);
  return {.kind = http::Framing::Kind::length, .length = std::stoull(std::string(text))};
}

inline bool same(const http::Framing& a, const http::Framing& b) {
  return a.kind == b.kind && a.length == b.length;
}

inline void check_fields(const http::Head& head, std::string_view bytes) {
  ONCE_ASSERT(head.size <= bytes.size());
  const std::string_view own = bytes.substr(0, head.size);
  ONCE_ASSERT(own.ends_with("\r\n\r\n") || own.ends_with("\r\n"));
  std::size_t lines = 0;
  for (const http::Field& field : head.fields) {
    ONCE_ASSERT(lies_in(field.name, own) && lies_in(field.value, own) && lies_in(field.line, own));
    ONCE_ASSERT(is_token(field.name) && is_text(field.value));
    ONCE_ASSERT(field.value.empty() || (field.value.front() > ' ' || (field.value.front() & 0x80) != 0));
    ONCE_ASSERT(field.line.starts_with(field.name) && field.line.ends_with("\r\n"));
    ONCE_ASSERT(std::ranges::count(field.line, '\n') == 1 && std::ranges::count(field.line, '\r') == 1);
    lines += field.line.size();
  }
  // Nothing lies between the first line and the fields, between two fields, or between them and the empty line.
  const std::size_t first_line = own.find("\r\n") + 2;
  // A response may have had the same length several times.
  const bool united = count(head, "content-length") == 1 && first_line + lines + 2 < head.size;
  ONCE_ASSERT(first_line + lines + 2 == head.size || united);
}

inline void check_same(const http::Head& a, const http::Head& b) {
  ONCE_ASSERT(a.version == b.version && same(a.framing, b.framing) && a.persistence == b.persistence);
  ONCE_ASSERT(a.upgrade == b.upgrade && a.connection_names_fields == b.connection_names_fields);
  ONCE_ASSERT(a.fields.size() == b.fields.size());
  for (std::size_t i = 0; i < a.fields.size(); ++i) {
    ONCE_ASSERT(a.fields[i].name == b.fields[i].name && a.fields[i].value == b.fields[i].value);
  }
}

// The fields and the empty line, as we would write them.
inline std::string written_fields(const http::Head& head) {
  std::string text;
  for (const http::Field& field : head.fields) text.append(field.name).append(": ").append(field.value).append("\r\n");
  return text + "\r\n";
}

inline std::string_view written(http::Version version) {
  return version == http::Version::http_1_1 ? "HTTP/1.1" : "HTTP/1.0";
}

// No bare CR or LF; a CR may be the last byte so far.
inline bool has_whole_line_ends(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == '\n' && (i == 0 || bytes[i - 1] != '\r')) return false;
    if (bytes[i] == '\r' && i + 1 < bytes.size() && bytes[i + 1] != '\n') return false;
  }
  return true;
}

// Prefixes of what is taken are waited for, what follows it is not looked at, what was refused stays refused, and what
// is waited for was not refused before. `parsed` parses some bytes with the usual limits.
inline void check_growing(std::string_view bytes, http::Parsed whole, std::size_t head_size, auto&& parsed) {
  const auto prefix = [&](std::size_t size) { return parsed(bytes.substr(0, size)); };
  const std::size_t sizes[] = {0, bytes.size() / 4, bytes.size() / 2, bytes.size() - bytes.size() / 8};
  switch (whole) {
    case http::Parsed::complete:
      ONCE_ASSERT(prefix(head_size) == http::Parsed::complete);
      ONCE_ASSERT(prefix(head_size - 1) == http::Parsed::incomplete);
      for (const std::size_t size : sizes) {
        ONCE_ASSERT(prefix(size) == (size < head_size ? http::Parsed::incomplete : http::Parsed::complete));
      }
      break;
    case http::Parsed::incomplete:
      ONCE_ASSERT(has_whole_line_ends(bytes));
      for (const std::size_t size : sizes) ONCE_ASSERT(prefix(size) == http::Parsed::incomplete);
      break;
    case http::Parsed::bad:
      ONCE_ASSERT(parsed(std::string(bytes) + "\r\n\r\n") == http::Parsed::bad);
      for (const std::size_t size : sizes) ONCE_ASSERT(prefix(size) != http::Parsed::complete);
      break;
  }
}

}  // namespace once::fuzz
