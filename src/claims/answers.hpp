// The responses of the claims API: a JSON object, or a problem document.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "claims/metrics.hpp"
#include "claims/requests.hpp"
#include "core/problem.hpp"
#include "core/record.hpp"
#include "http/service.hpp"
#include "store/store.hpp"

namespace once::claims {

// A response and its result for metrics.
struct ClaimsAnswer {
  http::ServiceResponse response;
  ClaimsResult result = ClaimsResult::done;
};

class ClaimsAnswers {
 public:
  explicit ClaimsAnswers(std::string type_base) : type_base_(std::move(type_base)) {}

  // The response to a claim; `handle` is used if it was acquired.
  ClaimsAnswer claimed(const Op& claim, std::string_view handle) const;
  // The response to a lookup.
  ClaimsAnswer found(const Op& lookup) const { return state_of(lookup, nullptr); }
  // The response to a read of the record and its progress.
  ClaimsAnswer followed(const Op& read, const ProgressPlace& place) const { return state_of(read, &place); }

  ClaimsAnswer renewed(Time lease_until) const;
  ClaimsAnswer appended(std::uint32_t number) const;
  ClaimsAnswer too_much_progress() const;
  // `value` is the owner's; if another value was recorded before, the response has that one.
  ClaimsAnswer succeeded(const Op& finish, std::string_view value) const;
  ClaimsAnswer failed(const Op& finish) const;
  ClaimsAnswer released() const;
  ClaimsAnswer lost() const;

  ClaimsAnswer invalid(std::string detail) const;
  ClaimsAnswer unauthorized() const;
  ClaimsAnswer not_found() const;
  ClaimsAnswer not_allowed(std::string_view allow) const;
  ClaimsAnswer store_failed(const Op& op) const;
  // The response to the owner of a claim that is lost, or if the store failed.
  ClaimsAnswer not_done(const Op& op) const { return op.status == OpStatus::lost ? lost() : store_failed(op); }
  ClaimsAnswer no_memory() const;

  http::ServiceResponse problem_response(ProblemKind kind, std::string detail) const;

 private:
  ClaimsAnswer state_of(const Op& lookup, const ProgressPlace* place) const;
  ClaimsAnswer replayed(const Op& op) const;
  ClaimsAnswer problem(ProblemKind kind, std::string detail, ClaimsResult result) const;

  std::string type_base_;
};

// The lease of a renewal that does not ask for one: the usual one, or the rest of a longer one. A renewal never
// shortens a lease.
Duration unasked_lease(const Op& lookup, const Nonce& nonce);

// Encodes the outcome of a claim that succeeded with this JSON value.
OutcomeBytes outcome_of(std::string_view value);

}  // namespace once::claims
