// Formats a log line, for callers that write it themselves.
#pragma once

#include <initializer_list>
#include <string_view>

#include "base/log.hpp"

namespace once::base {

// The line with its line end, valid until the next call on the same thread. The format must not be `automatic`.
std::string_view log_line(LogFormat format, Time now, LogLevel level, std::string_view message,
                          std::initializer_list<LogField> fields);

}  // namespace once::base
