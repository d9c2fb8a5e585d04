// The journal's bytes: records of any content survive, any bytes can be looked at, and a flipped bit is seen. The input
// is the fields of a record and of a header, one after the other.
#include <algorithm>
#include <string>

#include "store/journal/format.hpp"
#include "tests/fuzz/input.hpp"

namespace {

namespace journal = once::journal;
using once::core::Record;
using once::fuzz::Input;

bool same(const Record& a, const Record& b) {
  return a.state == b.state && a.body_kept == b.body_kept && a.attempt == b.attempt && a.fence == b.fence &&
         a.fingerprint == b.fingerprint && a.nonce == b.nonce && a.started_at == b.started_at &&
         a.expires_at == b.expires_at && (a.outcome == nullptr) == (b.outcome == nullptr) &&
         (a.outcome == nullptr || *a.outcome == *b.outcome) &&
         (a.attempt <= once::core::Attempt{1} ||
          (a.previous_state == b.previous_state && a.previous_started_at == b.previous_started_at));
}

once::base::Time drawn_time(Input& input) {
  return once::base::Time(once::base::Duration(input.number<std::int64_t>()));
}

Record drawn_record(Input& input) {
  Record record;
  record.state = once::core::State{static_cast<std::uint8_t>(input.number<std::uint8_t>() % 5)};
  record.previous_state = once::core::State{static_cast<std::uint8_t>(input.number<std::uint8_t>() % 5)};
  const auto flags = input.number<std::uint8_t>();
  record.body_kept = (flags & 1) != 0 ? once::core::BodyKept::no : once::core::BodyKept::yes;
  if ((flags & 8) != 0) record.body_kept = once::core::BodyKept::in_chunks;
  record.attempt = once::core::Attempt{input.number<std::uint32_t>()};
  record.fence = once::core::Fence{input.number<std::uint64_t>()};
  record.started_at = drawn_time(input);
  record.expires_at = drawn_time(input);
  record.forget_at = (flags & 4) != 0 ? drawn_time(input) : record.expires_at;
  record.previous_started_at = drawn_time(input);
  record.fingerprint = input.blob<once::base::Fingerprint>();
  record.nonce = input.blob<once::base::Nonce>();
  if ((flags & 2) != 0) record.outcome = std::make_shared<const std::string>(input.text(input.number<std::uint8_t>()));
  return record;
}

std::string_view whole_frame(std::string_view frame, std::uint32_t salt) {
  ONCE_ASSERT(journal::claimed_frame_size(frame) == frame.size());
  const auto payload = journal::decode_frame(frame, salt);
  ONCE_ASSERT(payload.has_value());
  return *payload;
}

void check_record(Input& input, std::uint32_t salt) {
  const Record record = drawn_record(input);
  const auto id = input.blob<once::base::OperationId>();
  std::string frame;
  const auto chunks = input.number<std::uint32_t>();
  journal::append_put(frame, salt, id, record, {}, chunks);
  ONCE_ASSERT(frame.size() == journal::put_frame_size(record) && frame.size() % journal::frame_alignment == 0);
  const std::string_view payload = whole_frame(frame, salt);
  const auto seen = journal::glance(payload);
  ONCE_ASSERT(seen && seen->kind == journal::Kind::put && seen->id == id && seen->fence == record.fence);
  ONCE_ASSERT(seen->expires_at == record.expires_at && seen->body_kept == record.body_kept);
  const bool in_chunks = record.body_kept == once::core::BodyKept::in_chunks;
  ONCE_ASSERT(journal::chunk_count(payload) == (in_chunks ? chunks : 0));
  const Record read = journal::decode_put(payload);
  ONCE_ASSERT(same(record, read));
  ONCE_ASSERT(read.forget_at == std::max(record.forget_at, record.expires_at) && seen->forget_at == read.forget_at);
  // A lease is kept while it has a meaning: of a claim that is held outside of the process.
  const bool leased = once::journal::is_leased(record);
  ONCE_ASSERT(read.lease_until == (leased ? record.lease_until : once::base::Time::min()));
  ONCE_ASSERT(!journal::decode_frame(frame, salt + 1));

  std::string others;
  journal::append_remove(others, salt, id, record.fence);
  ONCE_ASSERT(others.size() == journal::remove_frame_size);
  const auto removed = journal::glance(whole_frame(others, salt));
  ONCE_ASSERT(removed && removed->kind == journal::Kind::remove && removed->id == id && removed->fence == record.fence);
  // A flipped bit, of the length, the sum or the payload.
  const std::size_t bit = input.number<std::uint16_t>() % (8 * (payload.size() + journal::frame_overhead));
  frame[bit / 8] ^= static_cast<char>(1U << (bit % 8));
  ONCE_ASSERT(!journal::decode_frame(frame, salt));
}

void check_header(Input& input) {
  journal::SegmentHeader header{
      .journal = input.blob<journal::JournalId>(),
      .number = journal::SegmentNumber{input.number<std::uint32_t>()},
      .previous_end = input.number<std::uint64_t>(),
      .last_fence = once::core::Fence{input.number<std::uint64_t>()},
      .created_at = once::base::Time(once::base::Duration(input.number<std::int64_t>() & 0xffff'ffff'ffff))};
  const std::string bytes = journal::encode(header);
  const auto read = journal::decode_header(bytes);
  ONCE_ASSERT(read && read->journal == header.journal && read->number == header.number);
  ONCE_ASSERT(read->previous_end == header.previous_end && read->last_fence == header.last_fence);
  ONCE_ASSERT(read->created_at == header.created_at && read->salt == header.salt);
  if (header.number == journal::SegmentNumber{0}) return;
  ONCE_ASSERT(journal::parse_segment_name(journal::segment_name(header.number)) == header.number);
}

// What was never written by us.
void check_any(std::string_view bytes, std::uint32_t salt) {
  static_cast<void>(journal::decode_header(bytes));
  static_cast<void>(journal::decode_frame(bytes, salt));
  if (const auto number = journal::parse_segment_name(bytes)) ONCE_ASSERT(journal::segment_name(*number) == bytes);
  const auto seen = journal::glance(bytes);
  if (!seen) return;
  std::string frame;
  journal::append_payload(frame, salt, bytes);
  ONCE_ASSERT(whole_frame(frame, salt) == bytes);
  if (seen->kind != journal::Kind::put) return;
  const Record record = journal::decode_put(bytes);
  std::string again;
  journal::append_put(again, salt, seen->id, record);
  ONCE_ASSERT(same(record, journal::decode_put(whole_frame(again, salt))));
}

}  // namespace

FUZZ(bytes) {
  Input input(bytes);
  const auto salt = input.number<std::uint32_t>();
  check_any(bytes, salt);
  check_record(input, salt);
  check_header(input);
}
