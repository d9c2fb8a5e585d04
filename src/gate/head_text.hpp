// Writes message heads from a program's fields, so that the strict parser reads exactly these fields and no others.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include <once/gate.hpp>

#include "core/headers.hpp"

namespace once::gate {

// A value with a line end could inject fields.
inline bool is_one_line(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

// Framing fields belong to one connection.
inline bool is_framing(std::string_view name) {
  return same_name(name, "Content-Length") || same_name(name, "Transfer-Encoding");
}

inline void append_line(std::string& out, const Field& field) {
  out.append(field.name).append(": ").append(field.value).append("\r\n");
}

}  // namespace once::gate
