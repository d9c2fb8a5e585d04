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
  escapes_root,       // more .. than segments before them
  control_character,  // %00 to %1F, or %7F
  // Dots that readers resolve differently: beside an encoded slash, before a ;, or behind a segment that is empty or
  // contains an encoded slash, a backslash or a ;.
  ambiguous,
};

std::string describe(PathError error);

// Escapes decoded (%2F and %25 stay, in capitals; what is no escape stays as it is), . and .. resolved, slashes merged.
// The result is `path` itself or lies in `scratch`; a path that does not begin with a slash stays as it is.
std::expected<std::string_view, PathError> normalise_path(std::string_view path, std::string& scratch);

// What some readers make of a path beyond its normal form.
struct Reading {
  bool encoded_slashes = false;  // %2F is a slash: what WSGI and CGI hand to an application
  bool backslashes = false;      // \ is a slash
  bool parameters = false;       // what follows a ; is no part of a segment: servlets
  // Where parameters end beside a slash: readers take them off before or after they decode the rest.
  bool encoded_slash_ends_parameters = false;
  bool backslash_ends_parameters = false;
};

// A normal path as such a reader sees it, in its normal form; nullopt if that is the same.
std::optional<std::expected<std::string, PathError>> reread(std::string_view normal, Reading reading);

// Whether readers that resolve it could end up elsewhere than where it seems to lead: it has dot segments, empty ones
// or backslashes, escaped or not. Such a path must not be put behind another one, or cut.
bool wanders(std::string_view path);

// The same for one segment of a pattern, which has no dots to resolve.
std::string normalise_segment(std::string_view segment);

}  // namespace once::core
