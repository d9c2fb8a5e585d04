// Hashes bodies by their meaning, for media types that a client may encode differently on every try. Each form is
// exact: bodies with different meanings never hash alike. A body that does not strictly follow its media type has no
// such form.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/sha256.hpp"

namespace once::core {

// Any multipart type, by everything but the boundary, which clients draw anew: what comes before, between and after the
// delimiters, byte for byte and in order. So names, filenames, types and contents of parts all count. Takes linear
// time and allocates nothing. False if the body is no well-formed multipart body; the hash is of no use then.
bool hash_multipart(Sha256& hash, std::string_view content_type, std::string_view body);

// What stands between the parts of a multipart body: `--` and the boundary. None if there is no boundary, or two
// readers could find different ones. The other parameters of the media type go into the hash.
std::optional<std::string> multipart_delimiter(Sha256& hash, std::string_view content_type);

// application/x-www-form-urlencoded: decoded names and values, in order. The order counts because backends see it:
// the last of two equal names wins in one framework, and PHP and Rack build arrays from it. False if an escape is
// malformed.
bool hash_form(Sha256& hash, std::string_view body);

}  // namespace once::core
