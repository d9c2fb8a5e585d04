#include "http/trace_context.hpp"

#include <algorithm>
#include <cstddef>

#include "core/headers.hpp"

namespace once::http {

namespace {

// version "-" trace-id "-" parent-id "-" flags
constexpr std::size_t version_size = 2;
constexpr std::size_t trace_at = 3;
constexpr std::size_t trace_size = 32;
constexpr std::size_t parent_at = trace_at + trace_size + 1;
constexpr std::size_t parent_size = 16;
constexpr std::size_t flags_at = parent_at + parent_size + 1;
constexpr std::size_t whole_size = flags_at + 2;

bool is_hex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_zero(std::string_view text) {
  return text.find_first_not_of('0') == std::string_view::npos;
}

}  // namespace

std::string_view trace_id(std::string_view traceparent) {
  if (traceparent.size() < whole_size) return {};
  const std::string_view version = traceparent.substr(0, version_size);
  const std::string_view trace = traceparent.substr(trace_at, trace_size);
  const std::string_view parent = traceparent.substr(parent_at, parent_size);
  const bool dashes =
      traceparent[trace_at - 1] == '-' && traceparent[parent_at - 1] == '-' && traceparent[flags_at - 1] == '-';
  if (!dashes || !is_hex(version) || version == "ff") return {};
  if (!is_hex(trace) || !is_hex(parent) || !is_hex(traceparent.substr(flags_at, 2))) return {};
  if (is_zero(trace) || is_zero(parent)) return {};
  // Later versions may have more fields after it, version 00 has none.
  const bool ends = traceparent.size() == whole_size || (version != "00" && traceparent[whole_size] == '-');
  return ends ? trace : std::string_view();
}

std::string_view trace_id(const Head& head) {
  std::string_view found;
  bool seen = false;
  for (const Field& field : head.fields) {
    if (!same_name(field.name, "traceparent")) continue;
    if (seen) return {};
    seen = true;
    found = trace_id(field.value);
  }
  return found;
}

}  // namespace once::http
