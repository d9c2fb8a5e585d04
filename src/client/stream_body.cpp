#include "client/stream_body.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"

namespace once::client {

namespace {

constexpr std::string_view offset_header = "Idempotency-Offset";
constexpr std::string_view attempt_header = "Idempotency-Attempt";

// Whether the response belongs to an execution that began earlier.
bool says_it_continues(std::string_view status) {
  return status == "attached" || status == "replayed" || status == "unknown";
}

std::string value_of(const std::vector<Header>& headers, std::string_view name) {
  const auto found = std::ranges::find_if(headers, [&](const Header& header) { return iequals(header.name, name); });
  return found == headers.end() ? std::string() : found->value;
}

}  // namespace

StreamBody::StreamBody(const Reader& reader, const std::vector<Header>& asked)
    : reader_(reader), asked_offset_(value_of(asked, offset_header)), asked_attempt_(value_of(asked, attempt_header)) {}

void StreamBody::begin_try() {
  responding_ = false;
  idempotency_status_.clear();
  position_ = 0;
}

Reading StreamBody::take_head(const Answer& head) {
  responding_ = true;
  idempotency_status_ = head.header("Idempotency-Status");
  position_ = parse_number(head.header(offset_header)).value_or(0);
  const auto attempt = static_cast<unsigned>(parse_number(head.header(attempt_header)).value_or(0));
  if (has_begun()) {
    if (!continues(head)) {
      return differ(fmt::format("the retry was answered with {}, Idempotency-Status: {}", head.status,
                                idempotency_status_.empty() ? "none" : idempotency_status_));
    }
    if (attempt != 0 && attempt_ != 0 && attempt != attempt_) {
      return differ(fmt::format("attempt {} follows attempt {}", attempt, attempt_));
    }
  } else if (!is_what_was_asked_for(attempt)) {
    why_ = fmt::format(
        "the response does not continue at Idempotency-Offset {}: the kept part belongs to another attempt, or its "
        "response no longer exists",
        asked_offset_);
    return Reading::leave;
  }
  if (attempt_ == 0) attempt_ = attempt;
  if (iequals(head.header("Idempotency-Stopped"), "true")) stopped_ = Stopped::yes;
  if (has_begun()) return Reading::go_on;
  status_ = head.status;
  received_ = position_;  // the caller may have asked for a later part
  if (reader_.on_head) reader_.on_head(head);
  return Reading::go_on;
}

bool StreamBody::continues(const Answer& head) const {
  return head.status == status_ && says_it_continues(idempotency_status_) && position_ <= received_;
}

bool StreamBody::is_what_was_asked_for(unsigned attempt) const {
  if (asked_offset_.empty()) return true;
  if (parse_number(asked_offset_) != position_) return false;
  return attempt == 0 || asked_attempt_.empty() || parse_number(asked_attempt_) == attempt;
}

Reading StreamBody::take_bytes(std::string_view bytes) {
  const std::uint64_t start = position_;
  position_ += bytes.size();
  const std::uint64_t known = received_ > start ? std::min<std::uint64_t>(bytes.size(), received_ - start) : 0;
  const std::uint64_t tail_start = received_ - tail_.size();
  const std::uint64_t first = std::max(start, tail_start);
  if (first < start + known) {
    const std::string_view again = bytes.substr(first - start, start + known - first);
    if (again != std::string_view(tail_).substr(first - tail_start, again.size())) {
      return differ("its response differs");
    }
  }
  const std::string_view unseen = bytes.substr(known);
  if (unseen.empty()) return Reading::go_on;
  received_ += unseen.size();
  progress_ = true;
  tail_.append(unseen.substr(unseen.size() - std::min(unseen.size(), compared_bytes)));
  if (tail_.size() > compared_bytes) tail_.erase(0, tail_.size() - compared_bytes);
  return reader_.on_bytes ? reader_.on_bytes(unseen) : Reading::go_on;
}

Reading StreamBody::differ(std::string_view how) {
  why_ = fmt::format("the request was executed again ({})", how);
  return Reading::leave;
}

Happened StreamBody::judge(Happened happened) {
  if (responding_ && happened == Happened::success && position_ < received_) differ("its response is shorter");
  if (!why_.empty()) return Happened::new_attempt;
  if (!responding_ || happened == Happened::success || happened == Happened::cancelled) return happened;
  if (idempotency_status_ == "unknown") return Happened::broken_off;
  return idempotency_status_ == "executed" || says_it_continues(idempotency_status_) ? happened
                                                                                     : Happened::not_protected;
}

std::vector<Header> StreamBody::resuming(const std::vector<Header>& headers) const {
  if (!has_begun()) return headers;
  // Drop the caller's Last-Event-ID: the server would look it up again, and may now find it at another position.
  constexpr std::array<std::string_view, 3> ours = {offset_header, attempt_header, "Last-Event-ID"};
  std::vector<Header> made;
  for (const Header& header : headers) {
    if (std::ranges::none_of(ours, [&](std::string_view name) { return iequals(name, header.name); })) {
      made.push_back(header);
    }
  }
  const std::uint64_t offset = received_ - tail_.size();
  if (offset == 0) return made;
  made.push_back({.name = std::string(offset_header), .value = std::to_string(offset)});
  if (attempt_ != 0) made.push_back({.name = std::string(attempt_header), .value = std::to_string(attempt_)});
  return made;
}

bool StreamBody::take_progress(Happened happened) {
  const bool silent = responding_ && happened == Happened::timed_out;
  return std::exchange(progress_, false) || silent;
}

}  // namespace once::client
