// What the verbs do to a record that exists and has not expired. Pure: the memory store and the journal call these, the
// other stores say the same in Lua or SQL.
#pragma once

#include <cstdint>

#include "core/record.hpp"
#include "store/store.hpp"

namespace once::store {

enum class Written : std::uint8_t {
  no,       // the op is lost: another nonce, or a state that this verb does not lead out of
  already,  // the same was written before; nothing changes, and the op is done
  yes,      // the record changed
};

// A claim sent again by the one who holds it.
bool is_same_claim(const Record& record, const Op& claim);

// A copy of a claim that has ended since, delivered late. Also of a record that is forgotten and still there.
bool is_ended_claim(const Record& record, const Op& claim, Time now);

Written renew(Record& record, const Op& op, Time now);

// started leads to succeeded, failed or unknown. unknown leads to succeeded or failed, for the owner that learns more
// before anybody takes over. What is finished stays as it is: finishing it again the same way is done, any other
// way is lost.
Written finish(Record& record, const Op& op, Time now);

// started, once its owner is gone, and unknown lead to succeeded or failed, if the record is what was seen. Never
// `already`: what stands may be what another operator said, and whoever asks compares it.
Written resolve(Record& record, const Op& op, Time now);

// Whether released(record) may take the record's place.
bool may_release(const Record& record, const Op& op);

// Whether the record, as it stands at `now`, is what was seen and nobody is at work on it.
bool may_forget(const Record& record, const Op& op, Time now);

}  // namespace once::store
