// The format of a record in Redis: one string per key, a head of fixed fields followed by the outcome. The scripts
// (script.cpp) read and write the head with struct.pack, with the same offsets and numbers as here.
//
//   0 version 3 (2: the same without labels) · 1 state · 2 body kept (0 yes, 1 no, 2 in chunks, which older programs
//   read as no), and from version 4 on in its upper half the oldest version that can read and write the record · 3 has
//   an outcome (1), labels (2), chunks (4) · 4 expires_at, 8 bytes · 12 lease_until, 8 · 20 has waiters (1), or its
//   outcome is on the replicas (2) · 21 previous state · 22 attempt, 4 · 26 fence, 8 · 34 started_at, 8 ·
//   42 previous_started_at, 8 · 50 nonce, 16 · 66 fingerprint, 32 · 98 forget_at, 8 · 106 labels, outcome
//
// A version that only adds what older ones may ignore (bits of the fourth byte, or a trailer after their data)
// names the oldest compatible version, so that both can run side by side. Older programs do not touch records that they
// cannot read, and report them. Versions stay below 32.
//
// Labels are tenant and route, each with its length in one byte before it.
//
// Chunks of a response that still streams, or whose body stays in them, are in a list beside the record: the nonce of
// the claim that appended them, then one element for each. It is read only if the record has that nonce, so a list
// that an earlier claim left behind is harmless; the flag in the record lets the scripts remove it, or keep it until
// the record expires. Programs that do not know the flag ignore it, and Redis expires the list.
//
// Integers are big-endian, times are milliseconds since 1970. A time of 2^52 or more is never: Lua's numbers are exact
// to 2^53, and the sum of a time and a duration has to be, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/record.hpp"
#include "store/store.hpp"

namespace once::redis {

inline constexpr std::size_t head_size = 106;

// Why these bytes (at least three) cannot be read: a record of a newer version, or no record.
std::string why_unreadable(std::string_view packed);

// nullopt if these bytes are no record.
std::optional<Record> unpack_record(std::string_view packed);

// Whether the outcome is known to be on the configured number of replicas.
bool on_replicas(std::string_view packed);

// The labels in the bytes after the head, for a record that has them. Truncated labels are empty.
struct PackedLabels {
  std::string_view tenant = {};
  std::string_view route = {};
  std::size_t size = 0;  // of all of it
};
PackedLabels labels_in(std::string_view packed);
inline constexpr std::size_t largest_labels = 2 + 2 * 255;
// Empty if both labels are.
std::string packed_labels(std::string_view tenant, std::string_view route);

// Appends the key of the list of chunks that belongs to the record at `key`, which is `prefix` and the id's hex. Both
// are in the same slot of a cluster, unless the prefix has a brace that is no part of a hash tag.
void append_chunks_key(std::string& out, std::string_view prefix, std::string_view key);

// The reply of a script: a letter, the clock in microseconds, and perhaps a packed record. The first claim of an
// operation replies with the clock alone, as an integer; claimed() computes the record. A read that found chunks
// replies with an array: the same, then the chunks.
enum class Answer : char {
  written = 'W',     // done
  own = 'O',         // claim: the nonce already had the claim
  ended = 'E',       // claim: the nonce had the claim, which has ended
  stands = 'S',      // nothing was written; the reply has the existing record
  nothing = 'N',     // lookup, read: there is no record
  lost = 'L',        // renew, finish, release, append
  missing = 'M',     // append: Redis has fewer chunks than were appended before
  late = 'T',        // claim: it arrived after its deadline
  unreadable = 'U',  // a record of another version of Once
};

struct Answered {
  Answer answer = Answer::lost;
  std::uint64_t clock_us = 0;
  std::string_view record;  // a view of the reply
};

std::optional<Answered> read_answer(std::string_view reply);

inline Time time_of(std::uint64_t clock_us) {
  return Time(Duration(static_cast<std::int64_t>(clock_us / 1000)));
}

// Arguments of a script in addition to the op.
struct CallTerms {
  bool confirm = false;  // rewrite an existing outcome, because WAIT only waits for writes of its own connection
  Time claims_until{};   // by the server's clock; a later claim is refused
};

// Appends the first argument of the verb's script; terms_size() is its length.
void append_terms(std::string& out, const Op& op, const CallTerms& terms);
std::size_t terms_size(Verb verb);

}  // namespace once::redis
