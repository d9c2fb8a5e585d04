// The reason phrase for a status line that Once writes itself.
#pragma once

#include <string_view>

namespace once {

// Empty for a status without a registered phrase, which HTTP/1.1 permits.
std::string_view reason_phrase(int status);

}  // namespace once
