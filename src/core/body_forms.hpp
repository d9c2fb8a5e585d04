// Hashes bodies by their meaning, for media types that a client may encode differently on every try. Each form is
// exact: bodies with different meanings never hash alike. A body that does not strictly follow its media type has no
// such form.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/sha256.hpp"

namespace once::core {

// Hashes everything of a multipart body except the boundary, which clients draw anew: the bytes before, between and
// after the delimiters, in order. So names, filenames, types and contents of all parts count. Takes linear time and
// allocates nothing. Returns whether the body is well-formed; otherwise the hash must not be used.
bool hash_multipart(Sha256& hash, std::string_view content_type, std::string_view body);

// The delimiter of a multipart body: `--` and the boundary. nullopt if there is no boundary, or if two parsers could
// find different ones. The other parameters of the media type are hashed.
std::optional<std::string> multipart_delimiter(Sha256& hash, std::string_view content_type);

// application/x-www-form-urlencoded: hashes decoded names and values, in order. The order counts because backends see
// it: in some frameworks the last of two equal names wins, and PHP and Rack build arrays. Returns whether
// all escapes are well-formed.
bool hash_form(Sha256& hash, std::string_view body);

}  // namespace once::core
