#include "core/path.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/bytes.hpp"

namespace once::core {

namespace {

constexpr std::string_view encoded_slash = "%2F";

// One pass over the common case: the path needs no change.
bool is_plain(std::string_view path) {
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '%') return false;
    if (path[i] != '/' || i + 1 == path.size()) continue;
    if (path[i + 1] == '/' || path[i + 1] == '.') return false;
  }
  return true;
}

std::optional<unsigned char> escaped_at(std::string_view text, std::size_t at) {
  if (text[at] != '%' || at + 2 >= text.size()) return std::nullopt;
  const int high = hex_digit(text[at + 1]);
  const int low = hex_digit(text[at + 2]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<unsigned char>(high * 16 + low);
}

// False: it contains a control character.
bool append_decoded(std::string& out, std::string_view segment) {
  bool printable = true;
  for (std::size_t i = 0; i < segment.size(); ++i) {
    const auto byte = escaped_at(segment, i);
    if (!byte) {
      out.push_back(segment[i]);
      continue;
    }
    i += 2;
    if (*byte < 0x20 || *byte == 0x7f) printable = false;
    if (*byte == '/') {
      out.append(encoded_slash);
    } else if (*byte == '%') {
      out.append("%25");
    } else {
      out.push_back(static_cast<char>(*byte));
    }
  }
  return printable;
}

bool is_dots(std::string_view segment) {
  return segment == "." || segment == "..";
}

// Whether dots appear for parsers that decode encoded slashes too, or that strip parameters: "..;x".
bool hides_dots(std::string_view segment) {
  if (!segment.contains(';') && !segment.contains(encoded_slash)) return false;
  while (true) {
    const std::size_t slash = segment.find(encoded_slash);
    const std::string_view part = segment.substr(0, slash);
    if (is_dots(part.substr(0, part.find(';')))) return true;
    if (slash == std::string_view::npos) return false;
    segment.remove_prefix(slash + encoded_slash.size());
  }
}

// Takes the last segment off "/a/b": "/a". False: readers do not agree on where that segment begins or ends, or whether
// there is one.
bool drop_last(std::string& out) {
  const std::size_t slash = out.rfind('/');
  const std::string_view segment = std::string_view(out).substr(slash + 1);
  if (segment.empty() || segment.find_first_of(";\\") != std::string_view::npos || segment.contains(encoded_slash)) {
    return false;
  }
  out.resize(slash);
  return true;
}

void merge_slashes(std::string& path) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '/' && kept > 0 && path[kept - 1] == '/') continue;
    path[kept++] = path[i];
  }
  path.resize(kept);
}

}  // namespace

std::string describe(PathError error) {
  switch (error) {
    case PathError::escapes_root: return "The path leads out of the root.";
    case PathError::control_character: return "The path contains a control character.";
    case PathError::ambiguous: return "The path contains dot segments that backends resolve in different ways.";
  }
  return "";
}

std::expected<std::string_view, PathError> normalise_path(std::string_view path, std::string& scratch) {
  if (!path.starts_with('/') || is_plain(path)) return path;
  scratch.clear();
  std::string_view rest = path;
  while (!rest.empty()) {
    rest.remove_prefix(1);  // the slash
    const std::size_t end = std::min(rest.find('/'), rest.size());
    const bool last = end == rest.size();
    const std::size_t begin = scratch.size() + 1;
    scratch.push_back('/');
    if (!append_decoded(scratch, rest.substr(0, end))) return std::unexpected(PathError::control_character);
    rest.remove_prefix(end);
    const std::string_view segment = std::string_view(scratch).substr(begin);
    if (hides_dots(segment)) return std::unexpected(PathError::ambiguous);
    if (!is_dots(segment)) continue;
    const bool up = segment == "..";
    scratch.resize(begin - 1);
    if (up) {
      if (scratch.empty()) return std::unexpected(PathError::escapes_root);
      if (!drop_last(scratch)) return std::unexpected(PathError::ambiguous);
    }
    if (last) scratch.push_back('/');
  }
  merge_slashes(scratch);
  return scratch;
}

std::string normalise_segment(std::string_view segment) {
  std::string out;
  append_decoded(out, segment);
  return out;
}

namespace {

bool ends_parameters(std::string_view rest, Reading reading) {
  return rest.starts_with('/') || (reading.encoded_slash_ends_parameters && rest.starts_with(encoded_slash)) ||
         (reading.backslash_ends_parameters && rest.starts_with('\\'));
}

}  // namespace

std::optional<std::expected<std::string, PathError>> reread(std::string_view normal, Reading reading) {
  std::string read;
  for (std::size_t i = 0; i < normal.size(); ++i) {
    const bool slash = reading.encoded_slashes && normal.substr(i).starts_with(encoded_slash);
    if (slash) i += encoded_slash.size() - 1;
    if (slash || (reading.backslashes && normal[i] == '\\')) {
      read.push_back('/');
    } else if (reading.parameters && normal[i] == ';') {
      while (i + 1 < normal.size() && !ends_parameters(normal.substr(i + 1), reading)) ++i;
    } else {
      read.push_back(normal[i]);
    }
  }
  if (read == normal) return std::nullopt;
  std::string scratch;
  const auto resolved = normalise_path(read, scratch);
  if (!resolved) return std::unexpected(resolved.error());
  return std::string(*resolved);
}

bool wanders(std::string_view path) {
  std::string_view rest = path;
  while (!rest.empty()) {
    const std::size_t slash = std::min(rest.find('/', 1), rest.size());
    const std::string_view segment = rest.substr(1, slash - 1);
    const std::string decoded = normalise_segment(segment);
    const bool last = slash == rest.size();
    if (is_dots(decoded) || decoded.contains('\\') || (segment.empty() && !last)) return true;
    rest.remove_prefix(slash);
  }
  return false;
}

}  // namespace once::core
