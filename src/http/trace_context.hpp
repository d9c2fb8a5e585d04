// W3C Trace Context, as far as a gateway that starts no spans has to know it: whose trace a request belongs to. The
// fields themselves go to the backend as they came.
#pragma once

#include <string_view>

#include "http/head.hpp"

namespace once::http {

// The trace id of a traceparent: 32 lower-case hex digits. Empty if the field is not valid.
std::string_view trace_id(std::string_view traceparent);

// Of a request. Empty if it has no traceparent, one that is not valid, or several.
std::string_view trace_id(const Head& head);

}  // namespace once::http
