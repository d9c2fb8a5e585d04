// Which responses are recorded as they stream, and where to resume server-sent events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/backend_policy.hpp"
#include "core/policy.hpp"

namespace once::core {

// The parts of a response head that decide this.
struct StreamedHead {
  int status = 0;
  std::string_view content_type;
  BackendPolicy backend;
};

// Whether to record and relay the response chunk by chunk instead of at its end. Only for responses that the route
// would record as succeeded: failures and refusals are judged by the whole response.
bool is_recorded_as_it_streams(const StreamedHead& head, const RecordPolicy& policy);

// Whether this is a streaming media type: server-sent events or line-delimited JSON.
bool is_stream_type(std::string_view content_type);

// Finds where to resume a stream after the event with this id: after the blank line that ends the last event with it,
// parsing ids as in the HTML standard. The stream may be added in parts.
class EventFinder {
 public:
  explicit EventFinder(std::string_view id) : id_(id) {}

  void add(std::string_view part);
  // nullopt: no such event, or it is incomplete.
  std::optional<std::uint64_t> offset() const { return found_; }

 private:
  // Lines are searched for an id up to this length; clients cannot send longer ids.
  static constexpr std::size_t longest_line = 16384;

  void end_line();

  const std::string_view id_;
  std::string line_;         // the current line, as far as needed
  std::uint64_t at_ = 0;     // the offset after the last byte
  bool after_cr_ = false;    // a LF that follows belongs to the line that has ended
  bool begun_ = false;       // past the byte order mark, which is not part of the first line
  std::optional<bool> set_;  // whether the current event sets this id; nullopt: it sets none
  std::optional<std::uint64_t> found_;
};

// The same for a whole stream.
std::optional<std::uint64_t> offset_after_event(std::string_view stream, std::string_view id);

}  // namespace once::core
