// The record of one operation in a store: a plain value, interpreted by decision.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/bytes.hpp"
#include "base/clock.hpp"

namespace once::core {

enum class State : std::uint8_t {
  started,    // claimed: its request is, or was, at the backend
  succeeded,  // the outcome is recorded: every retry gets it
  failed,     // the backend answered with a failure: a retry may execute again
  unknown,    // bytes were sent to the backend but no whole response came back
  tombstone,  // expired and remembered: the key is used up, whatever the outcome was
};

// Counts the executions of an operation: 1, 2, 3 …
enum class Attempt : std::uint32_t {};
// Grows with every claim, so that a backend can refuse an older owner.
enum class Fence : std::uint64_t {};

enum class BodyKept : std::uint8_t {
  yes,        // in the outcome
  no,         // dropped: it was too large, or the store was full
  in_chunks,  // the outcome is only the head; the body is in the chunks that the claim appended (Verb::append)
};

// The recorded response, encoded by core/outcome.hpp. Shared, so that a replay copies nothing under a store's lock.
using OutcomeBytes = std::shared_ptr<const std::string>;

struct Record {
  State state = State::started;
  BodyKept body_kept = BodyKept::yes;
  Attempt attempt{1};
  Fence fence{1};
  Fingerprint fingerprint;
  Nonce nonce;           // of the claim that wrote the record last
  Time started_at;       // when that claim was made
  Time lease_until;      // Time::max() if the owner is the process and the store is not shared
  Time expires_at;       // from then on the outcome is not returned
  Time forget_at;        // expires_at or later: from then on the record counts as absent; until then it is a tombstone
  OutcomeBytes outcome;  // for succeeded; may be null otherwise
  // What a release restores: the end state and start time of the previous attempt. Set if attempt > 1.
  State previous_state = State::unknown;
  Time previous_started_at;
};

}  // namespace once::core
