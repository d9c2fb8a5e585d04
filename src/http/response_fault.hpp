// Why a response could not be read, other than a lost connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/layers.hpp"

namespace once::http {

enum class ResponseFault : std::uint8_t {
  status_line,
  version,         // not HTTP/1
  field,           // a malformed header field
  framing,         // ambiguous or malformed Content-Length or Transfer-Encoding
  coding,          // a transfer coding other than chunked
  too_large,       // the header, in bytes or fields
  chunk,           // malformed chunks or trailers
  interim,         // too many 1xx responses
  unasked_switch,  // 101 to a protocol that was not requested
};
inline constexpr std::size_t response_fault_count = 9;

// The name in logs and metrics.
std::string_view name_of(ResponseFault fault);

}  // namespace once::http
