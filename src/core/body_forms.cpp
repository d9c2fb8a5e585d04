#include "core/body_forms.hpp"

#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "base/bytes.hpp"
#include "core/headers.hpp"

namespace once::core {

namespace {

constexpr std::string_view line_end = "\r\n";
constexpr std::string_view parameter_space = " \t";
constexpr std::size_t longest_boundary = 70;  // RFC 2046

std::string_view without_space(std::string_view text) {
  const std::size_t first = text.find_first_not_of(parameter_space);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(parameter_space) + 1 - first);
}

// One `name=value` of a media type's parameters. Values with escapes or quotes inside are refused: boundaries have
// none, and parsers disagree about them.
struct Parameter {
  std::string_view name;
  std::string_view value;
};
std::optional<Parameter> take_parameter(std::string_view& rest) {
  const std::size_t equals = rest.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  const std::string_view name = without_space(rest.substr(0, equals));
  rest = without_space(rest.substr(equals + 1));
  const bool quoted = rest.starts_with('"');
  if (quoted) rest.remove_prefix(1);
  const std::size_t end = rest.find(quoted ? '"' : ';');
  if (quoted && end == std::string_view::npos) return std::nullopt;
  const std::string_view value = quoted ? rest.substr(0, end) : without_space(rest.substr(0, end));
  // Some parsers end an unquoted value at these characters (RFC 2045 requires quotes).
  if (!quoted && value.find_first_of("()<>@,;:\\/[]?= \t'") != std::string_view::npos) return std::nullopt;
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + (quoted ? 1 : 0));
  rest = without_space(rest);
  if (!rest.empty() && !rest.starts_with(';')) return std::nullopt;
  if (value.find_first_of("\"\\") != std::string_view::npos) return std::nullopt;
  return Parameter{.name = name, .value = value};
}

// nullopt if there is no boundary, or if two parsers could find different ones. The other parameters, such as which
// part is the first (RFC 2387), are hashed.
std::optional<std::string_view> boundary_of(std::string_view content_type, Sha256& hash) {
  constexpr std::string_view name = "boundary";
  std::optional<std::string_view> boundary;
  const std::size_t start = content_type.find(';');
  std::string_view rest = start == std::string_view::npos ? std::string_view() : content_type.substr(start);
  while (!rest.empty()) {
    rest = without_space(rest.substr(1));  // the semicolon
    if (rest.empty() || rest.starts_with(';')) continue;
    const auto parameter = take_parameter(rest);
    if (!parameter) return std::nullopt;
    if (same_name(parameter->name, "charset")) continue;
    if (!same_name(parameter->name.substr(0, name.size()), name)) {
      hash.update_part(parameter->name);
      hash.update_part(parameter->value);
      continue;
    }
    // Only some parsers support boundary*0 and the like (RFC 2231).
    if (boundary || parameter->name.size() != name.size()) return std::nullopt;
    boundary = parameter->value;
  }
  if (!boundary || boundary->empty() || boundary->size() > longest_boundary || boundary->ends_with(' ')) {
    return std::nullopt;
  }
  return boundary;
}

// memmem() takes linear time. std::string_view::find() compares the needle at every dash of a body full of dashes.
std::size_t find_from(std::string_view text, std::string_view needle, std::size_t from) {
  const void* found = ::memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

bool decode_form(std::string_view text, std::string& out) {
  out.clear();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    if (text.size() - i < 3) return false;
    const int high = hex_digit(text[i + 1]);
    const int low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return false;
    out += static_cast<char>((high * 16) + low);
    i += 2;
  }
  return true;
}

}  // namespace

std::optional<std::string> multipart_delimiter(Sha256& hash, std::string_view content_type) {
  const auto boundary = boundary_of(content_type, hash);
  if (!boundary) return std::nullopt;
  return std::string("--").append(*boundary);
}

// Everything that looks like a delimiter must be one for every parser. So no section may contain "--boundary" anywhere,
// and replacing the boundary changes no section.
bool hash_multipart(Sha256& hash, std::string_view content_type, std::string_view body) {
  const auto boundary = boundary_of(content_type, hash);
  if (!boundary || body.empty()) return false;
  std::array<char, 2 + longest_boundary> buffer = {'-', '-'};
  boundary->copy(buffer.data() + 2, longest_boundary);
  const std::string_view delimiter(buffer.data(), 2 + boundary->size());

  for (std::size_t section = 0;;) {
    const std::size_t at = find_from(body, delimiter, section);
    if (at == std::string_view::npos) return false;
    const bool first = section == 0;
    const std::string_view content = body.substr(section, at - section);
    const std::string_view after = body.substr(at + delimiter.size());
    if (!(first && content.empty()) && !content.ends_with(line_end)) return false;
    hash.update_part(content);
    if (after.starts_with("--")) {
      const std::string_view epilogue = after.substr(2);
      if (!epilogue.empty() && !epilogue.starts_with(line_end)) return false;
      if (find_from(epilogue, delimiter, 0) != std::string_view::npos) return false;
      hash.update_part(epilogue);
      return true;
    }
    if (!after.starts_with(line_end)) return false;
    section = at + delimiter.size() + line_end.size();
  }
}

bool hash_form(Sha256& hash, std::string_view body) {
  std::string decoded;
  while (true) {
    const std::size_t end = body.find('&');
    const std::string_view field = body.substr(0, end);
    const std::size_t equals = field.find('=');
    const bool has_value = equals != std::string_view::npos;
    if (!decode_form(field.substr(0, equals), decoded)) return false;
    hash.update_part(decoded);
    hash.update_part(has_value ? "=" : "");  // some parsers distinguish `a` from `a=`
    if (!decode_form(has_value ? field.substr(equals + 1) : std::string_view(), decoded)) return false;
    hash.update_part(decoded);
    if (end == std::string_view::npos) return true;
    body.remove_prefix(end + 1);
  }
}

}  // namespace once::core
