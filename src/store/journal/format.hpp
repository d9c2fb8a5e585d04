// The journal on disk: segment header and frames, as bytes. docs/journal-format.md is the same for people, and
// tests/unit/store/journal_format_test.cpp holds both to golden bytes. Pure: nothing here touches a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "core/record.hpp"

namespace once::journal {

// The random name of a journal, so that files of two never mix.
using JournalId = Blob<16, struct JournalIdTag>;
// Grows by one from segment to segment; the first is 1.
enum class SegmentNumber : std::uint32_t {};

// What this program knows. 2 added labels to puts; 3 says in a header who wrote it, and skips what later versions mark
// as not needed; 4 added a sum of the head of large puts. Earlier versions are read as they are.
inline constexpr std::uint32_t format_version = 4;
// The earliest version that can read what this program writes: version 3 skips what it does not know of it, so a
// program of that version can take the place of this one. Raised only for what cannot be skipped.
inline constexpr std::uint32_t version_needed = 3;
inline constexpr std::size_t header_size = 64;
inline constexpr std::size_t frame_alignment = 8;
inline constexpr std::size_t frame_overhead = 8;  // length and checksum

struct SegmentHeader {
  JournalId journal;
  SegmentNumber number{1};
  // Where the segment before this one ends. What lies behind was never acknowledged, or this one begins with it. 0:
  // this is the first one, and segments with lower numbers do not count.
  std::uint64_t previous_end = 0;
  Fence last_fence{0};                       // given out before this segment began
  Time created_at;                           // of 48 bits
  std::uint32_t needs = version_needed;      // the earliest version that can read this segment
  std::uint8_t written_by = format_version;  // 0: a version before 3, which did not say
  bool begins_run = false;                   // the first that a process began; not known of a version before 3
  std::uint32_t salt = 0;  // what the checksums of its frames begin with: the header's own. Filled in by encode, decode
};

std::string encode(SegmentHeader& header);

enum class HeaderFault : std::uint8_t { damaged, newer_version };
// As a program of version `known` reads it.
std::expected<SegmentHeader, HeaderFault> decode_header(std::string_view bytes, std::uint32_t known = format_version);
// Of one that is whole, also if this program cannot read it.
std::uint32_t needed_version(std::string_view header);

// The next segment while it is being made.
constexpr std::string_view spare_name = "next.segment";
std::string segment_name(SegmentNumber number);
std::optional<SegmentNumber> parse_segment_name(std::string_view name);

enum class Kind : std::uint8_t {
  put = 1,     // the whole record, from now on
  remove = 2,  // there is no record from now on
  mark = 3,    // up to where this segment was known to be on disk when this was written
  // From here on: of later versions, and not needed by those who do not know them.
  skipped = 128,
};

// What operators find a record by. Each is cut to 255 bytes.
struct Labels {
  std::string_view tenant = {};
  std::string_view route = {};
  bool empty() const { return tenant.empty() && route.empty(); }
};

// Frames are appended whole: length, checksum, payload, zeros up to the alignment.
void append_put(std::string& out, std::uint32_t salt, const OperationId& id, const Record& record,
                const Labels& labels = {});
void append_remove(std::string& out, std::uint32_t salt, const OperationId& id, Fence fence);
void append_mark(std::string& out, std::uint32_t salt, std::uint64_t durable_up_to, Time now);
// A payload that was read from another segment.
void append_payload(std::string& out, std::uint32_t salt, std::string_view payload);

std::size_t put_frame_size(const Record& record, const Labels& labels = {});
// Of a put without its outcome: without labels, and what those take at most.
inline constexpr std::size_t largest_put_overhead = frame_overhead + 136;
inline constexpr std::size_t largest_labels = 2 + 2 * 255;
inline constexpr std::size_t largest_extra_part = 1 + 255;
// Of a put with an outcome from this size on, what stands before the outcome has a sum of its own, so that it can be
// told without reading the rest. It takes this much more.
inline constexpr std::size_t head_sum_from = std::size_t{64} << 10U;
inline constexpr std::size_t head_sum_part = 1 + 4;
inline constexpr std::size_t remove_frame_size = frame_overhead + 48;
inline constexpr std::size_t mark_frame_size = frame_overhead + 24;

// A claim that is held outside of the process: its lease is written, because it outlives the process.
bool is_leased(const Record& record);
// How long a claim that is held outside of the process outlives a restart at least.
inline constexpr Duration lease_after_restart = std::chrono::seconds(30);

// The payload of the frame that begins at `bytes`, if there is a whole one with the right checksum.
std::optional<std::string_view> decode_frame(std::string_view bytes, std::uint32_t salt);
// What the frame that begins at `bytes` (at least frame_overhead of them) takes, if it is one; not checked further.
std::uint64_t claimed_frame_size(std::string_view bytes);
std::uint64_t frame_size(std::size_t payload_size);

// What every reader needs of a payload, without decoding all of it. Empty: not a payload that this version knows.
struct Glance {
  Kind kind;
  State state;                  // put
  OperationId id;               // put, remove
  Fence fence{0};               // put, remove
  Time expires_at;              // put
  Time forget_at;               // put
  Time lease_until;             // put; Time::min(): none
  std::uint64_t durable_up_to;  // mark
  Time written_at;              // mark
};
std::optional<Glance> glance(std::string_view payload);

// A put that glance() knows. Without a lease of its own its lease is over: the owner was the process, and whoever reads
// it back is another one.
Record decode_put(std::string_view payload);
// Whether a payload of which only the beginning was read is a put with a sum of its head, and that sum is right. Then
// all but the outcome is as it was written.
bool has_whole_head(std::string_view beginning);
// Of a put; views of the payload.
Labels labels_of(std::string_view payload);

}  // namespace once::journal
