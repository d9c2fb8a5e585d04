#include "config/variables.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace once::config {

namespace {

bool is_variable_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name.front()) &&
         std::ranges::all_of(name, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

}  // namespace

std::expected<Replaced, std::string> replace_variables(std::string_view text, const Environ& environ) {
  constexpr std::string_view begin = "${";
  Replaced out;
  for (std::size_t at = text.find(begin); at != std::string_view::npos; at = text.find(begin)) {
    const std::string_view before = text.substr(0, at);
    text.remove_prefix(at + begin.size());
    if (before.ends_with('$')) {  // $${
      out.text.append(before).append("{");
      continue;
    }
    const std::size_t end = text.find('}');
    const std::string_view name = text.substr(0, end);
    if (end == std::string_view::npos || !is_variable_name(name)) {
      return std::unexpected(
          "${ must be followed by the name of an environment variable and }, such as ${PGPASSWORD}: letters, digits "
          "and _, without a default; write $${ for a literal ${");
    }
    const std::optional<std::string> value = environ ? environ(name) : std::nullopt;
    if (!value) return std::unexpected(fmt::format("the environment variable {} is not set", name));
    out.text.append(before).append(*value);
    out.variables += fmt::format("{}${{{}}}", out.variables.empty() ? "" : ", ", name);
    text.remove_prefix(end + 1);
  }
  out.text += text;
  return out;
}

}  // namespace once::config
