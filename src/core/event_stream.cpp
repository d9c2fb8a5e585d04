#include "core/event_stream.hpp"

#include <array>

#include "base/text.hpp"
#include "core/fingerprint.hpp"
#include "core/headers.hpp"
#include "core/outcome.hpp"

namespace once::core {

namespace {

constexpr std::array<std::string_view, 3> stream_types = {"text/event-stream", "application/x-ndjson",
                                                          "application/jsonl"};

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

// A line of an event stream, which ends with CR, LF or both.
struct Line {
  std::string_view text;
  std::size_t end = 0;  // where the next one begins
};

// Nothing: the line is not complete. A CR at the very end may be followed by its LF.
std::optional<Line> line_at(std::string_view stream, std::size_t at) {
  const std::size_t end = stream.find_first_of("\r\n", at);
  if (end == std::string_view::npos) return std::nullopt;
  const bool two = stream[end] == '\r' && end + 1 < stream.size() && stream[end + 1] == '\n';
  return Line{.text = stream.substr(at, end - at), .end = end + (two ? 2 : 1)};
}

// The value of an `id` field. Nothing: another field, a comment, or an id that is ignored.
std::optional<std::string_view> id_of(std::string_view line) {
  constexpr std::string_view name = "id";
  const std::size_t colon = line.find(':');
  if (line.substr(0, colon) != name) return std::nullopt;
  std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (value.find('\0') != std::string_view::npos) return std::nullopt;
  return value;
}

}  // namespace

bool is_stream_type(std::string_view content_type) {
  const std::string_view type = media_type(content_type);
  for (const std::string_view known : stream_types) {
    if (same_name(type, known)) return true;
  }
  return false;
}

bool is_recorded_as_it_streams(const StreamedHead& head, const RecordPolicy& policy) {
  if (policy.stream == StreamRecording::off) return false;
  if (policy.stream == StreamRecording::automatic && !is_stream_type(head.content_type)) return false;
  return settle(Delivery::whole, head.status, head.said, policy).kind == Settlement::Kind::succeed;
}

std::optional<std::size_t> offset_after_event(std::string_view stream, std::string_view id) {
  std::optional<std::size_t> found;
  std::optional<std::string_view> set;  // by the event at hand
  std::size_t at = stream.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
  while (const auto line = line_at(stream, at)) {
    at = line->end;
    if (line->text.empty()) {
      if (set == id) found = at;
      set.reset();
    } else if (const auto value = id_of(line->text)) {
      set = value;
    }
  }
  return found;
}

}  // namespace once::core
