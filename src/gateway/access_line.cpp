#include "gateway/access_line.hpp"

#include <array>

#include "base/log_line.hpp"

namespace once::gateway {

namespace {

constexpr std::size_t shown_bytes = 8;

// The first bytes of the operation id, in hex.
std::string_view short_id(const std::optional<OperationId>& id, std::array<char, 2 * shown_bytes>& room) {
  constexpr std::string_view digits = "0123456789abcdef";
  if (!id) return {};
  const std::string_view bytes = id->view().substr(0, shown_bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    room[2 * i] = digits[byte >> 4U];
    room[2 * i + 1] = digits[byte & 0xFU];
  }
  return {room.data(), room.size()};
}

// Microsecond precision is enough, and shorter.
double milliseconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(std::chrono::floor<std::chrono::microseconds>(time)).count();
}

}  // namespace

std::string_view AccessLine::text(LogFormat format, Time now, std::string_view shadow) const {
  std::array<char, 2 * shown_bytes> room;
  return log_line(format, now, LogLevel::info, "request",
                  {{"request", request_id},
                   {"client", client},
                   {"method", method},
                   {"path", path},
                   {"route", route},
                   {"status", status},
                   {"result", name_of(ending)},
                   {"bytes", bytes},
                   {"ms", milliseconds_of(spent)},
                   {"server", upstream.server},
                   {"upstream_ms", milliseconds_of(upstream.took)},
                   {"operation", short_id(operation, room)},
                   {"attempt", static_cast<std::uint32_t>(attempt)},
                   {"shadow", shadow},
                   {"trace", trace}});
}

}  // namespace once::gateway
