#include "store/journal/format.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <concepts>
#include <cstring>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/text.hpp"

namespace once::journal {

namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied without swapping bytes");

constexpr std::string_view magic = "ONCEJRNL";
constexpr std::string_view segment_suffix = ".segment";

enum Flag : std::uint8_t {  // of a put frame
  body_not_kept = 1,
  has_outcome = 2,
  has_previous = 4,
  has_lease = 8,
  has_tombstone = 16,
  has_labels = 32,
  // the checksum of the head, then ExtraFlag; later content is from a later version and is skipped
  has_extra_part = 64,
};
constexpr std::uint8_t known_flags =
    body_not_kept | has_outcome | has_previous | has_lease | has_tombstone | has_labels | has_extra_part;

enum ExtraFlag : std::uint8_t {  // in the extra part of a put
  body_in_chunks = 1,            // their number follows. Version 5 uses body_not_kept, which is set too
};

// Each of these flags adds a time, in this order.
constexpr std::uint8_t timed_flags = has_previous | has_lease | has_tombstone;

// The last 8 bytes of a header: creation time, writing version, and whether a process began with it.
constexpr std::int64_t latest_creation = (std::int64_t{1} << 48U) - 1;
constexpr unsigned written_by_shift = 48;
constexpr std::uint64_t begins_run_bit = std::uint64_t{1} << 56U;

constexpr std::size_t put_size = 112;  // without the optional times and the outcome
constexpr std::size_t remove_size = 48;
constexpr std::size_t mark_size = 24;

class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  template <std::integral T>
  Writer& number(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& time(Time value) { return number(std::int64_t{value.time_since_epoch().count()}); }
  Writer& bytes(std::string_view value) {
    out_.append(value);
    return *this;
  }

 private:
  std::string& out_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <std::integral T>
  T number() {
    T value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  Time time() { return Time(Duration(number<std::int64_t>())); }
  template <class Blob>
  Blob blob() {
    Blob value;
    std::memcpy(value.bytes.data(), take(Blob::size).data(), Blob::size);
    return value;
  }

 private:
  std::string_view take(std::size_t size) {
    ONCE_ASSERT(bytes_.size() >= size);
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

  std::string_view bytes_;
};

// Reserves space for length and checksum, lets `fill` append the payload, then completes the frame.
void append_frame(std::string& out, std::uint32_t salt, auto&& fill) {
  const std::size_t begin = out.size();
  out.append(frame_overhead, '\0');
  fill(Writer(out));
  const std::size_t payload_size = out.size() - begin - frame_overhead;
  const auto length = static_cast<std::uint32_t>(payload_size);
  ONCE_ASSERT(length == payload_size);
  std::memcpy(out.data() + begin, &length, sizeof length);
  const std::string_view frame = std::string_view(out).substr(begin);
  const std::uint32_t checksum = crc32c(frame.substr(frame_overhead), crc32c(frame.substr(0, sizeof length), salt));
  std::memcpy(out.data() + begin + sizeof length, &checksum, sizeof checksum);
  out.append(frame_size(payload_size) - frame.size(), '\0');
}

// The size of the optional times of a put.
std::size_t times_size(std::uint8_t flags) {
  return static_cast<std::size_t>(std::popcount(static_cast<std::uint8_t>(flags & timed_flags))) * sizeof(std::int64_t);
}

bool has_head_sum(const Record& record) {
  return record.outcome != nullptr && record.outcome->size() >= head_sum_from;
}

// The size of the extra part, if there is one.
std::size_t extra_part_size(const Record& record) {
  if (record.body_kept == BodyKept::in_chunks) return in_chunks_part;
  return has_head_sum(record) ? head_sum_part : 0;
}

std::uint8_t flags_of(const Record& record) {
  const int flags = (record.body_kept == BodyKept::yes ? 0 : body_not_kept) |
                    (record.outcome != nullptr ? has_outcome : 0) | (record.attempt > Attempt{1} ? has_previous : 0) |
                    (is_leased(record) ? has_lease : 0) | (record.forget_at > record.expires_at ? has_tombstone : 0) |
                    (extra_part_size(record) > 0 ? has_extra_part : 0);
  return static_cast<std::uint8_t>(flags);
}

std::string_view cut(std::string_view label) {
  return label.substr(0, 255);
}

std::size_t labels_size(const Labels& labels) {
  return labels.empty() ? 0 : 2 + cut(labels.tenant).size() + cut(labels.route).size();
}

// A length-prefixed part at `at`; nullopt: the payload is too short. Moves `at` past it.
std::optional<std::string_view> part_at(std::string_view payload, std::size_t& at) {
  if (at >= payload.size()) return std::nullopt;
  const std::size_t size = static_cast<std::uint8_t>(payload[at++]);
  if (size > payload.size() - at) return std::nullopt;
  at += size;
  return payload.substr(at - size, size);
}

bool is_state(std::uint8_t value) {
  return value <= static_cast<std::uint8_t>(State::tombstone);
}

// The offset of a put's extra part, or where it would be: after times and labels. nullopt: the payload ends before
// that.
std::optional<std::size_t> labels_end(std::string_view payload) {
  const auto flags = static_cast<std::uint8_t>(payload[2]);
  std::size_t at = put_size + times_size(flags);
  for (int part = 0; part < ((flags & has_labels) != 0 ? 2 : 0); ++part) {
    if (!part_at(payload, at)) return std::nullopt;
  }
  return at;
}

// The extra part of a put; empty: there is none.
std::string_view extra_part_of(std::string_view payload) {
  if ((static_cast<std::uint8_t>(payload[2]) & has_extra_part) == 0) return {};
  std::size_t at = labels_end(payload).value_or(payload.size());
  return part_at(payload, at).value_or("");
}

// The number of chunks in a put's extra part. nullopt: its body is not in chunks.
std::optional<std::uint32_t> chunks_of(std::string_view payload) {
  constexpr std::size_t flags_at = 4;
  const std::string_view extra = extra_part_of(payload);
  if (extra.size() < in_chunks_part - 1 || (static_cast<std::uint8_t>(extra[flags_at]) & body_in_chunks) == 0) {
    return std::nullopt;
  }
  return Reader(extra.substr(flags_at + 1)).number<std::uint32_t>();
}

BodyKept body_kept_of(std::string_view payload) {
  if ((static_cast<std::uint8_t>(payload[2]) & body_not_kept) == 0) return BodyKept::yes;
  return chunks_of(payload) ? BodyKept::in_chunks : BodyKept::no;
}

// The offset of a put's outcome; nullopt: the payload ends before that.
std::optional<std::size_t> parts_end(std::string_view payload) {
  std::optional<std::size_t> at = labels_end(payload);
  const bool extra = (static_cast<std::uint8_t>(payload[2]) & has_extra_part) != 0;
  if (at && extra && !part_at(payload, *at)) return std::nullopt;
  return at;
}

bool is_put(std::string_view payload) {
  if (payload.size() < put_size) return false;
  const auto state = static_cast<std::uint8_t>(payload[1]);
  const auto flags = static_cast<std::uint8_t>(payload[2]);
  const auto previous_state = static_cast<std::uint8_t>(payload[3]);
  const std::optional<std::size_t> before_outcome = parts_end(payload);
  if (!before_outcome) return false;
  const std::size_t least = *before_outcome;
  return is_state(state) && is_state(previous_state) && (flags & ~known_flags) == 0 && payload.size() >= least &&
         ((flags & has_outcome) != 0 || payload.size() == least);
}

// The lease of a put. Time::min(): its owner was the process.
Time lease_of(std::string_view payload) {
  const auto flags = static_cast<std::uint8_t>(payload[2]);
  if ((flags & has_lease) == 0) return Time::min();
  return Reader(payload.substr(put_size + times_size(flags & has_previous))).time();
}

// The time at which a put is forgotten.
Time forget_time_of(std::string_view payload, Time expires_at) {
  const auto flags = static_cast<std::uint8_t>(payload[2]);
  if ((flags & has_tombstone) == 0) return expires_at;
  return Reader(payload.substr(put_size + times_size(flags & (has_previous | has_lease)))).time();
}

}  // namespace

bool is_leased(const Record& record) {
  return record.state == State::started && record.lease_until != Time::max() && record.lease_until != Time::min();
}

std::string encode(SegmentHeader& header) {
  const auto milliseconds = static_cast<std::uint64_t>(
      std::clamp<std::int64_t>(header.created_at.time_since_epoch().count(), 0, latest_creation));
  std::string before;
  Writer(before).bytes(magic).number(header.needs);
  std::string after;
  Writer(after)
      .bytes(header.journal.view())
      .number(std::uint64_t{std::to_underlying(header.number)})
      .number(header.previous_end)
      .number(std::to_underlying(header.last_fence))
      .number(milliseconds | std::uint64_t{header.written_by} << written_by_shift |
              (header.begins_run ? begins_run_bit : 0));
  header.salt = crc32c(after, crc32c(before));
  Writer(before).number(header.salt).bytes(after);
  ONCE_ASSERT(before.size() == header_size);
  return before;
}

std::uint32_t needed_version(std::string_view header) {
  return Reader(header.substr(magic.size())).number<std::uint32_t>();
}

std::uint8_t writer_of(std::string_view header) {
  return static_cast<std::uint8_t>(header[header_size - 2]);
}

std::expected<SegmentHeader, HeaderFault> decode_header(std::string_view bytes, std::uint32_t known) {
  if (bytes.size() < header_size || !bytes.starts_with(magic)) return std::unexpected(HeaderFault::damaged);
  Reader reader(bytes.substr(magic.size(), header_size - magic.size()));
  SegmentHeader header;
  header.needs = reader.number<std::uint32_t>();
  header.salt = reader.number<std::uint32_t>();
  constexpr std::size_t before = 12;
  constexpr std::size_t after = 16;
  if (crc32c(bytes.substr(after, header_size - after), crc32c(bytes.substr(0, before))) != header.salt) {
    return std::unexpected(HeaderFault::damaged);
  }
  header.written_by = writer_of(bytes);
  if (header.needs > known) return std::unexpected(HeaderFault::newer_version);
  if (header.written_by + 1U < known) return std::unexpected(HeaderFault::older_version);
  header.journal = reader.blob<JournalId>();
  const auto number = reader.number<std::uint64_t>();
  header.number = SegmentNumber{static_cast<std::uint32_t>(number)};
  if (std::to_underlying(header.number) != number) return std::unexpected(HeaderFault::damaged);
  header.previous_end = reader.number<std::uint64_t>();
  header.last_fence = Fence{reader.number<std::uint64_t>()};
  const auto created = reader.number<std::uint64_t>();
  header.created_at = Time(Duration(static_cast<std::int64_t>(created) & latest_creation));
  header.begins_run = (created & begins_run_bit) != 0;
  return header;
}

std::string segment_name(SegmentNumber number) {
  return fmt::format("{:010}{}", std::to_underlying(number), segment_suffix);
}

std::optional<SegmentNumber> parse_segment_name(std::string_view name) {
  if (!name.ends_with(segment_suffix)) return std::nullopt;
  const std::string_view whole = name;
  name.remove_suffix(segment_suffix.size());
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size() || number == 0) return std::nullopt;
  if (segment_name(SegmentNumber{number}) != whole) return std::nullopt;
  return SegmentNumber{number};
}

std::string to_note(const JournalEnd& end) {
  return fmt::format("{} {}\n", segment_name(end.segment), end.offset);
}

std::optional<JournalEnd> parse_note(std::string_view note) {
  const std::size_t space = note.find(' ');
  if (space == std::string_view::npos || !note.ends_with('\n')) return std::nullopt;
  const auto segment = parse_segment_name(note.substr(0, space));
  const auto offset = parse_number(note.substr(space + 1, note.size() - space - 2));
  if (!segment || !offset) return std::nullopt;
  return JournalEnd{.segment = *segment, .offset = *offset};
}

std::uint64_t frame_size(std::size_t payload_size) {
  return (frame_overhead + payload_size + frame_alignment - 1) / frame_alignment * frame_alignment;
}

std::size_t put_frame_size(const Record& record, const Labels& labels) {
  return frame_size(put_size + times_size(flags_of(record)) + labels_size(labels) + extra_part_size(record) +
                    (record.outcome == nullptr ? 0 : record.outcome->size()));
}

void append_put(std::string& out, std::uint32_t salt, const OperationId& id, const Record& record, const Labels& labels,
                std::uint32_t chunks) {
  const auto flags = static_cast<std::uint8_t>(flags_of(record) | (labels.empty() ? 0 : has_labels));
  const bool previous = (flags & has_previous) != 0;
  append_frame(out, salt, [&](Writer to) {
    const std::size_t begin = out.size();
    to.number(std::to_underlying(Kind::put))
        .number(std::to_underlying(record.state))
        .number(flags)
        .number(std::to_underlying(previous ? record.previous_state : State::started))
        .number(std::to_underlying(record.attempt))
        .number(std::to_underlying(record.fence))
        .time(record.started_at)
        .time(record.expires_at)
        .bytes(id.view())
        .bytes(record.fingerprint.view())
        .bytes(record.nonce.view());
    if (previous) to.time(record.previous_started_at);
    if ((flags & has_lease) != 0) to.time(record.lease_until);
    if ((flags & has_tombstone) != 0) to.time(record.forget_at);
    if (!labels.empty()) {
      for (const std::string_view label : {cut(labels.tenant), cut(labels.route)}) {
        to.number(static_cast<std::uint8_t>(label.size())).bytes(label);
      }
    }
    if ((flags & has_extra_part) != 0) {
      const std::uint32_t sum = crc32c(std::string_view(out).substr(begin));
      to.number(static_cast<std::uint8_t>(extra_part_size(record) - 1)).number(sum);
      if (record.body_kept == BodyKept::in_chunks) to.number(std::uint8_t{body_in_chunks}).number(chunks);
    }
    if (record.outcome != nullptr) to.bytes(*record.outcome);
  });
}

void append_remove(std::string& out, std::uint32_t salt, const OperationId& id, Fence fence) {
  append_frame(out, salt, [&](Writer to) {
    to.number(std::uint64_t{std::to_underlying(Kind::remove)}).number(std::to_underlying(fence)).bytes(id.view());
  });
}

void append_mark(std::string& out, std::uint32_t salt, std::uint64_t durable_up_to, Time now) {
  append_frame(out, salt, [&](Writer to) {
    to.number(std::uint64_t{std::to_underlying(Kind::mark)}).number(durable_up_to).time(now);
  });
}

void append_chunk(std::string& out, std::uint32_t salt, const ChunkName& name, std::string_view bytes) {
  append_frame(out, salt, [&](Writer to) {
    to.number(std::uint32_t{std::to_underlying(Kind::chunk)})
        .number(name.number)
        .number(std::to_underlying(name.fence))
        .bytes(name.id.view())
        .bytes(name.nonce.view())
        .bytes(bytes);
  });
}

void append_payload(std::string& out, std::uint32_t salt, std::string_view payload) {
  append_frame(out, salt, [&](Writer to) { to.bytes(payload); });
}

std::uint64_t claimed_frame_size(std::string_view bytes) {
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return frame_size(length);
}

std::optional<std::string_view> decode_frame(std::string_view bytes, std::uint32_t salt) {
  if (bytes.size() < frame_overhead) return std::nullopt;
  std::uint32_t length = 0;
  std::uint32_t checksum = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  std::memcpy(&checksum, bytes.data() + sizeof length, sizeof checksum);
  if (length == 0 || length > bytes.size() - frame_overhead) return std::nullopt;
  const std::string_view payload = bytes.substr(frame_overhead, length);
  if (crc32c(payload, crc32c(bytes.substr(0, sizeof length), salt)) != checksum) return std::nullopt;
  return payload;
}

std::optional<Glance> glance(std::string_view payload) {
  if (payload.empty()) return std::nullopt;
  Glance seen{};
  Reader reader(payload);
  switch (static_cast<std::uint8_t>(payload.front())) {
    case std::to_underlying(Kind::put):
      if (!is_put(payload)) return std::nullopt;
      seen.kind = Kind::put;
      seen.state = State{static_cast<std::uint8_t>(payload[1])};
      seen.body_kept = body_kept_of(payload);
      reader.number<std::uint64_t>();  // kind, state, flags, previous state, attempt
      seen.fence = Fence{reader.number<std::uint64_t>()};
      reader.time();  // started_at
      seen.expires_at = reader.time();
      seen.id = reader.blob<OperationId>();
      seen.lease_until = lease_of(payload);
      seen.forget_at = forget_time_of(payload, seen.expires_at);
      return seen;
    case std::to_underlying(Kind::remove):
      if (payload.size() != remove_size) return std::nullopt;
      seen.kind = Kind::remove;
      reader.number<std::uint64_t>();
      seen.fence = Fence{reader.number<std::uint64_t>()};
      seen.id = reader.blob<OperationId>();
      return seen;
    case std::to_underlying(Kind::mark):
      if (payload.size() != mark_size) return std::nullopt;
      seen.kind = Kind::mark;
      reader.number<std::uint64_t>();
      seen.durable_up_to = reader.number<std::uint64_t>();
      seen.written_at = reader.time();
      return seen;
    case std::to_underlying(Kind::chunk):
      if (payload.size() < chunk_head) return std::nullopt;
      seen.kind = Kind::chunk;
      reader.number<std::uint32_t>();
      seen.chunk = reader.number<std::uint32_t>();
      seen.fence = Fence{reader.number<std::uint64_t>()};
      seen.id = reader.blob<OperationId>();
      seen.nonce = reader.blob<Nonce>();
      return seen;
    default:
      if (!is_optional(static_cast<std::uint8_t>(payload.front()))) return std::nullopt;
      if (payload.size() < mark_size) return std::nullopt;
      seen.kind = Kind::skipped;
      return seen;
  }
}

Record decode_put(std::string_view payload) {
  ONCE_ASSERT(is_put(payload));
  Reader reader(payload);
  Record record;
  reader.number<std::uint8_t>();
  record.state = State{reader.number<std::uint8_t>()};
  const auto flags = reader.number<std::uint8_t>();
  record.previous_state = State{reader.number<std::uint8_t>()};
  record.attempt = Attempt{reader.number<std::uint32_t>()};
  record.fence = Fence{reader.number<std::uint64_t>()};
  record.started_at = reader.time();
  record.expires_at = reader.time();
  reader.blob<OperationId>();
  record.fingerprint = reader.blob<Fingerprint>();
  record.nonce = reader.blob<Nonce>();
  if ((flags & has_previous) != 0) record.previous_started_at = reader.time();
  record.lease_until = (flags & has_lease) != 0 ? reader.time() : Time::min();
  record.forget_at = (flags & has_tombstone) != 0 ? reader.time() : record.expires_at;
  record.body_kept = body_kept_of(payload);
  if ((flags & has_outcome) != 0) {
    record.outcome = std::make_shared<const std::string>(payload.substr(parts_end(payload).value_or(payload.size())));
  }
  return record;
}

bool has_whole_head(std::string_view beginning) {
  const auto seen = glance(beginning);
  if (!seen || seen->kind != Kind::put || (static_cast<std::uint8_t>(beginning[2]) & has_extra_part) == 0) return false;
  const std::size_t head = labels_end(beginning).value_or(beginning.size());
  const std::string_view extra = extra_part_of(beginning);
  std::uint32_t sum = 0;
  if (extra.size() < sizeof sum) return false;
  std::memcpy(&sum, extra.data(), sizeof sum);
  return crc32c(beginning.substr(0, head)) == sum;
}

std::uint32_t chunk_count(std::string_view payload) {
  ONCE_ASSERT(is_put(payload));
  return chunks_of(payload).value_or(0);
}

ChunkName chunk_name(const Glance& seen) {
  ONCE_ASSERT(seen.kind == Kind::chunk);
  return {.id = seen.id, .nonce = seen.nonce, .fence = seen.fence, .number = seen.chunk};
}

std::string_view chunk_bytes(std::string_view payload) {
  return payload.substr(chunk_head);
}

Labels labels_of(std::string_view payload) {
  ONCE_ASSERT(is_put(payload));
  const auto flags = static_cast<std::uint8_t>(payload[2]);
  if ((flags & has_labels) == 0) return {};
  std::size_t at = put_size + times_size(flags);
  const std::string_view tenant = part_at(payload, at).value_or("");
  return {.tenant = tenant, .route = part_at(payload, at).value_or("")};
}

}  // namespace once::journal
