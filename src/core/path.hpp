// Paths as routes see them. Backends normalise what they are sent, so a route that compared bytes could be walked
// around: /v1//payments, /v1/%70ayments and /v1/x/../payments are /v1/payments to most of them. Only the choice of the
// route uses this form: what is forwarded, hashed and logged stays as it was sent.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace once {

enum class PathError : std::uint8_t {
  escapes_root,       // more .. than segments before them
  control_character,  // %00 to %1F, or %7F
  ambiguous,          // a .. that readers resolve differently: behind an empty segment, or beside an encoded slash
};

std::string describe(PathError error);

// Escapes decoded (%2F and %25 stay, in capitals; what is no escape stays as it is), . and .. resolved, slashes merged.
// The result is `path` itself or lies in `scratch`; a path that does not begin with a slash stays as it is.
std::expected<std::string_view, PathError> normalise_path(std::string_view path, std::string& scratch);

// Whether readers that resolve it could end up elsewhere than where it seems to lead: it has dot segments, empty ones
// or backslashes, escaped or not. Such a path must not be put behind another one, or cut.
bool wanders(std::string_view path);

// The same for one segment of a pattern, which has no dots to resolve.
std::string normalise_segment(std::string_view segment);

}  // namespace once
