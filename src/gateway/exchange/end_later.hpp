// What a request could not tell the store before it was answered: tried on in the background, until the store has it or
// the record cannot stand any more. A drain waits for these.
#pragma once

#include <chrono>

#include "gateway/exchange/exchange_ports.hpp"
#include "store/store.hpp"

namespace once {

// How long a finish or release that did not get through is tried on, and for how long of that often.
struct Patience {
  Duration limit;
  Duration often;
  // A claim that may still be on its way to the store is not there to be released yet: for how long after the store
  // said so a release is tried on.
  Duration on_its_way = Duration::zero();
};

// `counted`: what the outcome counts by against limits.max_body_memory until then.
void try_later(const ExchangePorts& ports, Op op, Patience patience, OutcomeBytes counted = nullptr);

// How long a claim that was given up may take to reach a shared store that answers other calls. Not long: a drain waits
// for its release.
inline constexpr Duration latest_arrival = std::chrono::seconds(10);

// Ends a claim as soon as the store answers again: it is taken back, or, once anything was sent, unknown. While a store
// is down every request leaves a claim that may have been made; beyond a limit they are left to lapse.
void end_claim_later(const ExchangePorts& ports, const Op& claim, Verb verb, Patience patience);
// The same for a claim whose end is known: `end` says all of it.
void end_as_known_later(const ExchangePorts& ports, Op end, Patience patience, OutcomeBytes counted);

}  // namespace once
