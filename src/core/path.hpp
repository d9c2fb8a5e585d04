// Normalised paths for choosing a route. Backends normalise paths, so comparing bytes would let clients bypass a route:
// most backends treat /v1//payments, /v1/%70ayments and /v1/x/../payments as /v1/payments. Only the choice of the route
// uses this form; the original path is forwarded, hashed and logged.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "base/layers.hpp"

namespace once::core {

enum class PathError : std::uint8_t {
  escapes_root,       // more ".." than segments before them
  control_character,  // %00 to %1F, or %7F
  // Dots that readers resolve differently: beside an encoded slash, before a ;, or behind a segment that is empty or
  // contains an encoded slash, a backslash or a ;.
  ambiguous,
};

std::string describe(PathError error);

// Decodes escapes (%2F and %25 stay, in upper case; invalid escapes stay unchanged), resolves . and .., and merges
// slashes. The result is `path` itself or a view of `scratch`; a path that does not begin with a slash is unchanged.
std::expected<std::string_view, PathError> normalise_path(std::string_view path, std::string& scratch);

// A way in which some parsers read a path beyond its normal form.
struct Reading {
  bool encoded_slashes = false;  // %2F is a slash, as WSGI and CGI pass it to applications
  bool backslashes = false;      // \ is a slash
  bool parameters = false;       // text after a ; is not part of the segment, as in servlets
  // Whether parameters also end at such a slash: parsers strip them before or after they decode the rest.
  bool encoded_slash_ends_parameters = false;
  bool backslash_ends_parameters = false;
};

// The path as read by such a parser, in normal form; nullopt if it is the same.
std::optional<std::expected<std::string, PathError>> reread(std::string_view normal, Reading reading);

// Whether a parser could resolve the path to a different place: it has dot segments, empty segments or backslashes,
// escaped or not. Such a path must not be appended to another or cut.
bool wanders(std::string_view path);

// Decodes one segment of a pattern like normalise_path(), without resolving dots.
std::string normalise_segment(std::string_view segment);

}  // namespace once::core
