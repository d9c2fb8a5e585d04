// The record of one operation in a store. A plain value; decision.hpp interprets it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/bytes.hpp"
#include "base/clock.hpp"

namespace once::core {

enum class State : std::uint8_t {
  started,    // claimed; somebody is, or was, at the backend
  succeeded,  // outcome recorded: every retry gets it
  failed,     // the backend answered, and a retry may execute again
  unknown,    // bytes went to the backend and no whole response came back
  tombstone,  // expired, and remembered: the key is used up, whatever became of it
};

// 1, 2, 3 …: executions of one operation.
enum class Attempt : std::uint32_t {};
// A number that grows with every claim, so that a backend can refuse an older owner.
enum class Fence : std::uint64_t {};

enum class BodyKept : std::uint8_t {
  yes,        // in the outcome
  no,         // the response was too large, or the store had no room
  in_chunks,  // the outcome is the head alone; the body is what the claim has appended (Verb::append)
};

// The recorded response, encoded by core/outcome.hpp. Shared, so that a replay copies no bytes under a store's lock.
using OutcomeBytes = std::shared_ptr<const std::string>;

struct Record {
  State state = State::started;
  BodyKept body_kept = BodyKept::yes;
  Attempt attempt{1};
  Fence fence{1};
  Fingerprint fingerprint;
  Nonce nonce;           // of the claim that wrote this last
  Time started_at;       // when that claim was made
  Time lease_until;      // Time::max() if the owner is the process and the store is not shared
  Time expires_at;       // what is recorded is not told from then on
  Time forget_at;        // expires_at or later: from then on the record is as none; a tombstone in between
  OutcomeBytes outcome;  // for succeeded; may be null otherwise
  // What a release gives back: how the attempt before this one ended, and when it began. Set while attempt > 1.
  State previous_state = State::unknown;
  Time previous_started_at;
};

}  // namespace once::core
