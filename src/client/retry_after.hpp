// Retry-After (RFC 9110, 10.2.3): seconds, or an HTTP date in any of its three forms.
#pragma once

#include <optional>
#include <string_view>

#include "base/clock.hpp"

namespace once::client {

// The time to wait from `now`; zero for a past date. nullopt if it is neither: then the client's own backoff is better
// than a guess.
std::optional<Duration> parse_retry_after(std::string_view value, Time now);

// "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994".
std::optional<Time> parse_http_date(std::string_view text, Time now);

}  // namespace once::client
