// Responses that are recorded as they stream: which ones, and where a reader of server-sent events goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/backend_policy.hpp"
#include "core/policy.hpp"

namespace once::core {

// The head of a response, as far as it matters for that.
struct StreamedHead {
  int status = 0;
  std::string_view content_type;
  BackendPolicy said;
};

// Whether its chunks are recorded and sent on as they come, instead of the whole at its end. Only if the route would
// record it as succeeded: a failure or a refusal is settled by the whole response.
bool is_recorded_as_it_streams(const StreamedHead& head, const RecordPolicy& policy);

// Whether this is the type of a stream: server-sent events or JSON by lines.
bool is_stream_type(std::string_view content_type);

// Finds where a stream goes on after the event with this id: after the blank line that ends the last event that sets
// it, as the HTML standard reads ids. The stream may be given in parts.
class EventFinder {
 public:
  explicit EventFinder(std::string_view id) : id_(id) {}

  void add(std::string_view part);
  // Nothing: there is no such event, or it is not complete.
  std::optional<std::uint64_t> offset() const { return found_; }

 private:
  // An id is looked for in so much of a line; clients cannot send longer ones.
  static constexpr std::size_t longest_line = 16384;

  void end_line();

  const std::string_view id_;
  std::string line_;         // the one at hand, as far as it matters
  std::uint64_t at_ = 0;     // after the last byte
  bool after_cr_ = false;    // a LF belongs to the line that has ended
  bool begun_ = false;       // a byte order mark is no part of the first line
  std::optional<bool> set_;  // whether the event at hand sets this id; nothing: it sets none
  std::optional<std::uint64_t> found_;
};

// Of a whole stream.
std::optional<std::uint64_t> offset_after_event(std::string_view stream, std::string_view id);

}  // namespace once::core
