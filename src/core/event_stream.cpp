#include "core/event_stream.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.hpp"
#include "core/fingerprint.hpp"
#include "core/headers.hpp"
#include "core/outcome.hpp"

namespace once::core {

namespace {

constexpr std::array<std::string_view, 3> stream_types = {"text/event-stream", "application/x-ndjson",
                                                          "application/jsonl"};

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

// The value of an `id` field. nullopt: another field, a comment, or an ignored id.
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
  return settle(Delivery::whole, head.status, head.backend, policy).kind == Settlement::Kind::succeed;
}

void EventFinder::end_line() {
  std::string_view line = line_;
  if (!begun_ && line.starts_with(byte_order_mark)) line.remove_prefix(byte_order_mark.size());
  begun_ = true;
  if (line.empty()) {
    if (set_.value_or(false)) found_ = at_;
    set_.reset();
  } else if (const auto value = id_of(line); value && line_.size() < longest_line) {
    set_ = *value == id_;
  }
  line_.clear();
}

void EventFinder::add(std::string_view part) {
  while (!part.empty()) {
    if (std::exchange(after_cr_, false) && part.front() == '\n') {
      ++at_;
      // A LF after a CR belongs to the blank line that has just ended.
      if (found_ && *found_ + 1 == at_) found_ = at_;
      part.remove_prefix(1);
      continue;
    }
    const std::size_t end = std::min(part.find_first_of("\r\n"), part.size());
    line_.append(part.substr(0, std::min(end, longest_line - std::min(longest_line, line_.size()))));
    if (end == part.size()) {
      at_ += end;
      return;
    }
    at_ += end + 1;
    after_cr_ = part[end] == '\r';
    end_line();
    part.remove_prefix(end + 1);
  }
}

std::optional<std::uint64_t> offset_after_event(std::string_view stream, std::string_view id) {
  EventFinder finder(id);
  finder.add(stream);
  return finder.offset();
}

}  // namespace once::core
