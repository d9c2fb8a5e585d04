// The decision: what to do with a request, given the state of its operation. A table in which the first matching row
// wins. The compiler proves that every combination of facts has exactly one verdict and that every row is reachable.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/record.hpp"

namespace once::core {

// What happens to an operation whose owner is gone or whose outcome is unknown.
enum class OnUnknown : std::uint8_t {
  retry,     // the next request executes it again at once
  takeover,  // the next request executes it again once takeover_after has passed since it started
  hold,      // nobody does, until someone resolves it or it expires
};

enum class Verdict : std::uint8_t {
  execute,    // claim it and go to the backend
  replay,     // give the recorded answer
  not_kept,   // it succeeded, but the answer was too large to keep
  mismatch,   // the key was used for another request
  in_flight,  // its owner is at work
  too_early,  // outcome unknown, takeover not yet allowed
  held,       // outcome unknown, somebody has to resolve it
  gone,       // it expired, and that is remembered
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

// A row; an empty cell fits anything.
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
  __builtin_unreachable();  // proven below
}

// Who holds a claim. A store that is not shared ends with the process, so a claim of its own needs no lease; one that
// is held by another program does, for that one can die by itself.
enum class Owner : std::uint8_t { process, outside };

// The part of the policy that the store needs to settle a claim in one atomic step.
struct ClaimTerms {
  OnUnknown on_unknown = OnUnknown::takeover;
  Duration takeover_after = std::chrono::minutes(5);
  Duration lease = Duration::max();  // Duration::max(): until the process ends
  Duration ttl = std::chrono::hours(24);
  Duration tombstone{};  // how long after its expiry the key is remembered, and answered as gone
  Owner owner = Owner::process;
};

// A record as it stands at `now`, seen by a request with this fingerprint.
Facts facts_of(const Record* record, const Fingerprint& fingerprint, const ClaimTerms& terms, Time now);

// Nothing that it holds is told or written any more. An owner that is still at work keeps its record, however long past
// its expiry that is.
bool expired(const Record& record, Time now);

// Expired, and not remembered either: as if there were none.
bool forgotten(const Record& record, Time now);

// An expired record is a tombstone, without its outcome: also one that failed or that nobody finished, for it may have
// been executed, and its key is used up. What every store says of it, however it keeps it.
void age(Record& record, Time now);

// It ends `ttl` from now, and is remembered after that for as long as its claim asked for.
void keep_for(Record& record, Duration ttl, Time now);

// now + after, without overflow: Duration::max() is never reached.
Time saturating_add(Time now, Duration after);

// The record that a claim writes when the verdict is execute. `previous` is null when there is none, or it is
// forgotten.
Record claimed(const Record* previous, const Fingerprint& fingerprint, const Nonce& nonce, const ClaimTerms& terms,
               Time now);

// The nonce of a claim that was released, its halves exchanged: nobody's, and yet a copy of the claim that the network
// delivers late is known by it.
Nonce released_nonce(const Nonce& nonce);

// What stays when the owner of a started record takes its claim back: nothing, or the attempt before it with nobody as
// its owner, so that neither the one who released nor the one before can write again. The fence does not go back.
std::optional<Record> released(const Record& record);

// How long a shared store keeps the nonce of a released first claim, as a record that is forgotten.
inline constexpr Duration release_remembered = std::chrono::minutes(1);
Record trace_of_release(const Record& record);

}  // namespace once::core
