// W3C Trace Context, as far as a gateway without spans of its own needs it: the trace that a request belongs to. The
// fields are forwarded unchanged.
#pragma once

#include <string_view>

#include "http/head.hpp"

namespace once::http {

// The trace id of a traceparent: 32 lower-case hex digits. Empty if the field is not valid.
std::string_view trace_id(std::string_view traceparent);

// The trace id of a request. Empty if it has no valid traceparent, or several.
std::string_view trace_id(const Head& head);

}  // namespace once::http
