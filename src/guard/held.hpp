// The guard's side of a claim.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "guard/engine.hpp"

namespace once::guard {

// It must not move, because the renewer refers to it.
struct Held {
  enum class Over : std::uint8_t { no, failed, released };

  Held(Engine& the_engine, const Op& claimed, Time held_since, const Request& request)
      : alive(the_engine.weak_from_this().lock()),
        engine(the_engine),
        lease{.id = claimed.id, .nonce = claimed.nonce},
        lease_length(request.lease),
        ttl(request.ttl),
        sanitise{.store_only = request.store_only, .never_store = request.never_store},
        handle(handle_of(claimed.id, claimed.nonce)),
        attempt(static_cast<std::uint32_t>(claimed.record->attempt)),
        fence(static_cast<std::uint64_t>(claimed.record->fence)) {
    LeaseSteps steps;
    steps.start(claimed, held_since, nullptr);
    keeping.emplace(the_engine.background(), lease, steps);
  }

  Op op(Verb verb) const {
    Op made;
    made.verb = verb;
    made.id = lease.id;
    made.nonce = lease.nonce;
    made.terms.ttl = ttl;
    return made;
  }
  // The op that records a value.
  Op success(std::string_view value, std::string_view media_type) const;
  // Interprets the store's answer to an end.
  Outcome<std::string> succeeded(Op& end, std::string value, Observation& observation);
  EndResult failed(Op& end, Observation& observation);
  EndResult released(Op& end);

  void end(Over how) {
    over = how;
    keeping.reset();
  }
  OutcomeFacts facts() const {
    OutcomeFacts facts;
    facts.attempt = attempt;
    facts.fence = fence;
    return facts;
  }

  const std::shared_ptr<Engine> alive;  // null if the engine's creator keeps it alive
  Engine& engine;
  Lease lease;
  Duration lease_length;
  Duration ttl;
  Sanitise sanitise;
  std::string handle;
  unsigned attempt;
  std::uint64_t fence;
  Over over = Over::no;
  std::optional<Background::Keeping> keeping;  // until the claim has ended
};

}  // namespace once::guard
