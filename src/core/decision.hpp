// The decision: what to do with a request, given the state of its operation. A table in which the first matching row
// wins. The compiler proves that every combination of facts has exactly one verdict and that every row is reachable.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/record.hpp"

namespace once::core {

// What a retry does if the operation's owner has died or its outcome is unknown.
enum class OnUnknown : std::uint8_t {
  retry,     // it executes again at once
  takeover,  // it executes again once takeover_after has passed since the operation started
  hold,      // it is refused until the operation is resolved or expires
};

enum class Verdict : std::uint8_t {
  execute,    // claim the operation and send the request to the backend
  replay,     // send the recorded response
  not_kept,   // it succeeded, but its response was too large to keep
  mismatch,   // the key was used for a different request
  in_flight,  // its owner is executing it
  too_early,  // the outcome is unknown, and takeover is not allowed yet
  held,       // the outcome is unknown, and an operator must resolve it
  gone,       // the key has expired and is remembered
};

enum class Found : std::uint8_t { nothing, started, succeeded, failed, unknown, tombstone };
enum class Same : std::uint8_t { no, yes };
enum class Lease : std::uint8_t { live, lapsed };
enum class Takeover : std::uint8_t { not_yet, due };

struct Facts {
  Found found;
  Same same_fingerprint;
  Lease lease;
  OnUnknown on_unknown;
  Takeover takeover;
  BodyKept body_kept;
};

namespace decision {

// One row; an empty cell matches anything.
struct Row {
  std::optional<Found> found;
  std::optional<Same> same_fingerprint;
  std::optional<Lease> lease;
  std::optional<OnUnknown> on_unknown;
  std::optional<Takeover> takeover;
  std::optional<BodyKept> body_kept;
  Verdict verdict = Verdict::held;

  constexpr bool fits(const Facts& facts) const {
    const auto cell = [](const auto& wanted, auto value) { return !wanted || *wanted == value; };
    return cell(found, facts.found) && cell(same_fingerprint, facts.same_fingerprint) && cell(lease, facts.lease) &&
           cell(on_unknown, facts.on_unknown) && cell(takeover, facts.takeover) && cell(body_kept, facts.body_kept);
  }
};

inline constexpr std::nullopt_t any = std::nullopt;

// clang-format off
inline constexpr std::array table = {
  //  found              fingerprint lease         on_unknown           takeover           body           verdict
  Row{Found::nothing,    any,        any,          any,                 any,               any,           Verdict::execute},
  Row{Found::tombstone,  any,        any,          any,                 any,               any,           Verdict::gone},
  Row{any,               Same::no,   any,          any,                 any,               any,           Verdict::mismatch},
  Row{Found::succeeded,  any,        any,          any,                 any,               BodyKept::no,  Verdict::not_kept},
  Row{Found::succeeded,  any,        any,          any,                 any,               any,           Verdict::replay},
  Row{Found::failed,     any,        any,          any,                 any,               any,           Verdict::execute},
  Row{Found::started,    any,        Lease::live,  any,                 any,               any,           Verdict::in_flight},
  // From here on: started with a lapsed lease, or unknown.
  Row{any,               any,        any,          OnUnknown::retry,    any,               any,           Verdict::execute},
  Row{any,               any,        any,          OnUnknown::takeover, Takeover::due,     any,           Verdict::execute},
  Row{any,               any,        any,          OnUnknown::takeover, Takeover::not_yet, any,           Verdict::too_early},
  Row{any,               any,        any,          OnUnknown::hold,     any,               any,           Verdict::held},
};
// clang-format on

}  // namespace decision

constexpr Verdict decide(const Facts& facts) {
  for (const decision::Row& row : decision::table) {
    if (row.fits(facts)) return row.verdict;
  }
  __builtin_unreachable();  // unreachable, as proven below
}

// Who owns a claim. A store that is not shared ends with the process, so claims of the process need no lease. An owner
// in another program needs one, because that program can die alone.
enum class Owner : std::uint8_t { process, outside };

// The part of a policy that the store needs to decide a claim in one atomic step.
struct ClaimTerms {
  OnUnknown on_unknown = OnUnknown::takeover;
  Duration takeover_after = std::chrono::minutes(5);
  Duration lease = Duration::max();  // Duration::max(): until the process ends
  Duration ttl = std::chrono::hours(24);
  Duration tombstone{};  // how long after its expiry the key is remembered and answered as gone
  Owner owner = Owner::process;
};

// The facts about a record at `now`, for a request with this fingerprint.
Facts facts_of(const Record* record, const Fingerprint& fingerprint, const ClaimTerms& terms, Time now);

// Whether the record has expired: its outcome is no longer returned, and no owner may write to it. A record whose owner
// is still executing never expires.
bool expired(const Record& record, Time now);

// Whether the record has expired and is no longer remembered: treat it as absent.
bool forgotten(const Record& record, Time now);

// Turns an expired record into a tombstone without its outcome. This includes failed and unfinished ones: they may have
// been executed, so their keys are used up. Every store reports expired records like this.
void age(Record& record, Time now);

// The record expires `ttl` from now. After that it is remembered for as long as its claim asked.
void keep_for(Record& record, Duration ttl, Time now);

// now + after, without overflow: Duration::max() is never reached.
Time saturating_add(Time now, Duration after);

// The record that a claim writes if the verdict is execute. `previous` is null if there is none or it is forgotten.
Record claimed(const Record* previous, const Fingerprint& fingerprint, const Nonce& nonce, const ClaimTerms& terms,
               Time now);

// The nonce of a released claim with its halves exchanged. No owner has it, but it identifies a copy of the claim that
// the network delivers late.
Nonce released_nonce(const Nonce& nonce);

// What remains when the owner of a started record releases its claim: nullopt, or the previous attempt's record without
// an owner, so that neither owner can write again. The fence does not decrease.
std::optional<Record> released(const Record& record);

// How long a shared store remembers the nonce of a released first claim, in a record that counts as absent.
inline constexpr Duration release_remembered = std::chrono::minutes(1);
Record trace_of_release(const Record& record);

}  // namespace once::core
