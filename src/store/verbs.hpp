// The effect of each verb on a record that exists and has not expired. Pure functions: the memory store and the journal
// call them; the other stores implement the same in Lua or SQL.
#pragma once

#include <cstdint>

#include "core/record.hpp"
#include "store/store.hpp"

namespace once::store {

enum class Written : std::uint8_t {
  no,       // the op is lost: another nonce, or a state that this verb cannot change
  already,  // the same was written before: nothing changes, and the op is done
  yes,      // the record changed
};

// A repeated claim of the current owner.
bool is_same_claim(const Record& record, const Op& claim);

// A late copy of a claim that has already ended. Also for a forgotten record that still exists.
bool is_ended_claim(const Record& record, const Op& claim, Time now);

Written renew(Record& record, const Op& op, Time now);

// started becomes succeeded, failed or unknown. unknown becomes succeeded or failed, if the owner learns the outcome
// before a takeover. A finished record does not change: finishing it again with the same state is done, with another
// state lost.
Written finish(Record& record, const Op& op, Time now);

// started without an owner, and unknown, become succeeded or failed if the record is still what the operator saw. Never
// `already`: another operator may have recorded something else, so the caller compares.
Written resolve(Record& record, const Op& op, Time now);

// Whether the op may append a chunk to the response of this record.
bool may_append(const Record& record, const Op& op);

// Whether the op may replace the record with released(record).
bool may_release(const Record& record, const Op& op);

// Whether the record at `now` is still what the operator saw, and has no running owner.
bool may_forget(const Record& record, const Op& op, Time now);

}  // namespace once::store
