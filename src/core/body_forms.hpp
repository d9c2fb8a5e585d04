// Bodies that a client may spell anew on every try, hashed by what they say. Each form is exact: two bodies that say
// different things never hash alike. A body that does not follow its media type to the letter has no such form.
#pragma once

#include <string_view>

#include "base/sha256.hpp"

namespace once {

// Any multipart type, by everything but the boundary, which clients draw anew: what comes before, between and after the
// delimiters, byte for byte and in order. So names, filenames, types and contents of parts all count. Takes linear
// time and allocates nothing. False if the body is no well-formed multipart body; the hash is of no use then.
bool hash_multipart(Sha256& hash, std::string_view content_type, std::string_view body);

// application/x-www-form-urlencoded: decoded names and values, in order. The order counts because backends see it:
// the last of two equal names wins in one framework, and PHP and Rack build arrays from it. False if an escape is
// malformed.
bool hash_form(Sha256& hash, std::string_view body);

}  // namespace once
