// What a request could not tell the store before it was answered: tried on in the background, until the store has it or
// the record cannot stand any more. A drain waits for these.
#pragma once

#include "gateway/exchange_ports.hpp"
#include "store/store.hpp"

namespace once {

// How long a finish or release that did not get through is tried on, and for how long of that often.
struct Patience {
  Duration limit;
  Duration often;
};

// `counted`: what the outcome counts by against limits.max_body_memory until then.
void try_later(const ExchangePorts& ports, Op op, Patience patience, OutcomeBytes counted = nullptr);

// Ends a claim as soon as the store answers again: it is taken back, or, once anything was sent, unknown. While a store
// is down every request leaves a claim that may have been made; beyond a limit they are left to lapse.
void end_claim_later(const ExchangePorts& ports, const Op& claim, Verb verb, Patience patience);

}  // namespace once
