// The on-disk format: segment headers and frames. docs/reference/journal-format.md describes it, and
// tests/unit/store/journal_format_test.cpp compares both with golden bytes. Pure functions without file access.
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

// A random id of the journal, so that files of two journals cannot be mixed.
using JournalId = Blob<16, struct JournalIdTag>;
// Grows by one from segment to segment; the first is 1.
enum class SegmentNumber : std::uint32_t {};

// The version of this program. It lets the body of a success stay in chunks, which version 5 reads as a body that was
// not kept. Version 5 is still read.
inline constexpr std::uint32_t format_version = 6;
inline constexpr std::uint32_t oldest_version = format_version - 1;
// The earliest version that can read what this program writes. It skips what it does not know, so this program can be
// rolled back to it. Raise this only for data that cannot be skipped.
inline constexpr std::uint32_t version_needed = oldest_version;
inline constexpr std::size_t header_size = 64;
inline constexpr std::size_t frame_alignment = 8;
inline constexpr std::size_t frame_overhead = 8;  // length and checksum

struct SegmentHeader {
  JournalId journal;
  SegmentNumber number{1};
  // The end of the previous segment. Bytes after it were never acknowledged, or were copied to the beginning of this
  // one. 0: this is the first segment, and segments with lower numbers are obsolete.
  std::uint64_t previous_end = 0;
  Fence last_fence{0};                       // the last one used before this segment began
  Time created_at;                           // stored in 48 bits
  std::uint32_t needs = version_needed;      // the earliest version that can read this segment
  std::uint8_t written_by = format_version;  // 0: before version 3, which did not record it
  bool begins_run = false;                   // the first segment of a process
  std::uint32_t salt = 0;  // start value of the frames' checksums: the header's checksum. Set by encode and decode
};

std::string encode(SegmentHeader& header);

enum class HeaderFault : std::uint8_t { damaged, older_version, newer_version };
// Decodes as a program of version `known` does.
std::expected<SegmentHeader, HeaderFault> decode_header(std::string_view bytes, std::uint32_t known = format_version);
// For a valid header, even of a segment that this program cannot read: the version that it needs, and the version that
// wrote it.
std::uint32_t needed_version(std::string_view header);
std::uint8_t writer_of(std::string_view header);

// The name of the next segment while it is created.
constexpr std::string_view spare_name = "next.segment";
std::string segment_name(SegmentNumber number);
std::optional<SegmentNumber> parse_segment_name(std::string_view name);

// The note of a process that stops cleanly: where the last segment that it wrote ends.
struct JournalEnd {
  SegmentNumber segment{};
  std::uint64_t offset = 0;
};
std::string to_note(const JournalEnd& end);
// nullopt: it is no such note, or incomplete.
std::optional<JournalEnd> parse_note(std::string_view note);

enum class Kind : std::uint8_t {
  put = 1,     // the new record
  remove = 2,  // the record is removed
  mark = 3,    // the part of this segment that was on disk when this was written
  // From here on: optional frames, which older programs skip.
  chunk = 128,    // a part of a response
  skipped = 129,  // this and all above: of later versions
};
inline bool is_optional(std::uint8_t kind) {
  return kind >= std::to_underlying(Kind::chunk);
}

// Identifies a chunk: its claim and its number. The nonce alone is not enough, because a released claim may be made
// again with the same nonce.
struct ChunkName {
  OperationId id;
  Nonce nonce;
  Fence fence{0};
  std::uint32_t number = 0;
  bool operator==(const ChunkName&) const = default;
};

// Labels of a record, for operators. Each is cut to 255 bytes.
struct Labels {
  std::string_view tenant = {};
  std::string_view route = {};
  bool empty() const { return tenant.empty() && route.empty(); }
};

// Frames are appended completely: length, checksum, payload, zeros up to the alignment. `chunks` is the number of
// chunks of a record whose body is in them.
void append_put(std::string& out, std::uint32_t salt, const OperationId& id, const Record& record,
                const Labels& labels = {}, std::uint32_t chunks = 0);
void append_remove(std::string& out, std::uint32_t salt, const OperationId& id, Fence fence);
void append_mark(std::string& out, std::uint32_t salt, std::uint64_t durable_up_to, Time now);
void append_chunk(std::string& out, std::uint32_t salt, const ChunkName& name, std::string_view bytes);
// Appends a payload that was read from another segment.
void append_payload(std::string& out, std::uint32_t salt, std::string_view payload);

std::size_t put_frame_size(const Record& record, const Labels& labels = {});
// The most that a put needs besides its outcome and labels, and the most that labels need.
inline constexpr std::size_t largest_put_overhead = frame_overhead + 136;
inline constexpr std::size_t largest_labels = 2 + 2 * 255;
inline constexpr std::size_t largest_extra_part = 1 + 255;
// If the outcome of a put has at least this size, the part before it has its own checksum, so that it can be verified
// without reading the outcome. The checksum takes this many bytes.
inline constexpr std::size_t head_sum_from = std::size_t{64} << 10U;
inline constexpr std::size_t head_sum_part = 1 + 4;
// The same for a put whose body is in chunks, with a flag and their number.
inline constexpr std::size_t in_chunks_part = head_sum_part + 1 + 4;
// The size of a chunk frame's payload without the chunk's bytes.
inline constexpr std::size_t chunk_head = 64;
inline constexpr std::size_t remove_frame_size = frame_overhead + 48;
inline constexpr std::size_t mark_frame_size = frame_overhead + 24;

// Whether the claim has an owner outside the process: then its lease is written, because it outlives the process.
bool is_leased(const Record& record);
// The minimum lease, after a restart, of a claim with an owner outside the process.
inline constexpr Duration lease_after_restart = std::chrono::seconds(30);

// The payload of the frame at `bytes`, if the frame is complete and its checksum is right.
std::optional<std::string_view> decode_frame(std::string_view bytes, std::uint32_t salt);
// The size that the frame at `bytes` (at least frame_overhead of them) claims to have; not checked further.
std::uint64_t claimed_frame_size(std::string_view bytes);
std::uint64_t frame_size(std::size_t payload_size);

// The parts of a payload that every reader needs, without decoding all of it. nullopt: unknown payload.
struct Glance {
  Kind kind;
  State state;                  // put
  BodyKept body_kept;           // put
  OperationId id;               // put, remove, chunk
  Fence fence{0};               // put, remove, chunk
  Time expires_at;              // put
  Time forget_at;               // put
  Time lease_until;             // put; Time::min(): none
  std::uint64_t durable_up_to;  // mark
  Time written_at;              // mark
  Nonce nonce;                  // chunk
  std::uint32_t chunk;          // chunk: its number
};
std::optional<Glance> glance(std::string_view payload);

// Decodes a put that glance() accepts. A record without a written lease has lapsed: its owner was the process that
// wrote it, which has ended.
Record decode_put(std::string_view payload);
// Whether the beginning of a payload is a put with a valid checksum of its head. Then everything except the outcome is
// intact.
bool has_whole_head(std::string_view beginning);
// For a put that glance() accepts: the number of its chunks when it was written; 0 if its body is not in chunks.
std::uint32_t chunk_count(std::string_view payload);
// For a chunk that glance() accepts.
ChunkName chunk_name(const Glance& seen);
std::string_view chunk_bytes(std::string_view payload);
// For a put; views of the payload.
Labels labels_of(std::string_view payload);

}  // namespace once::journal
