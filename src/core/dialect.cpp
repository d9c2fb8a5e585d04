#include "core/dialect.hpp"

#include <array>

#include "core/headers.hpp"
#include "core/outcome.hpp"

namespace once::core {

namespace {

// The IETF draft (draft-ietf-httpapi-idempotency-key-header).
Policy ietf() {
  Policy policy;
  policy.dialect = "ietf";
  policy.methods = methods({Method::post, Method::patch});
  policy.record = default_record_policy();
  return policy;
}

// As Stripe's client libraries expect it. The scope is the caller and the account it acts for: the fingerprint includes
// method and path, so reusing a key on another path is a mismatch, not a second operation. As with Stripe, a 500 is
// replayed to every retry, and so is a 402, which means a declined card.
Policy stripe() {
  Policy policy = ietf();
  policy.dialect = "stripe";
  policy.methods = methods({Method::post, Method::delete_});
  policy.scope = {ScopePart::caller};
  policy.scope_headers = {"Stripe-Account", "Stripe-Context"};
  policy.record.statuses |= statuses({{500, 500}});
  policy.record.refusals &= ~statuses({{402, 402}});
  policy.wording.mismatch_status = 400;
  policy.wording.mismatch_code = "idempotency_error";
  policy.wording.in_flight_code = "idempotency_key_in_use";
  policy.wording.replay_header = "Idempotent-Replayed";
  policy.wording.error_object = true;
  return policy;
}

Policy platform() {
  Policy policy = ietf();
  policy.dialect = "platform";
  policy.key.header = "X-Idempotency-Key";
  policy.methods = methods({Method::post, Method::put, Method::patch});
  policy.scope = {ScopePart::caller};
  policy.in_flight = InFlight::reject;
  policy.on_unknown = OnUnknown::takeover;
  policy.wording.in_flight_detail = "Request is being processed";
  policy.wording.replay_header = "Idempotent-Replayed";
  return policy;
}

// The scope is the organisation and the endpoint. A trusted proxy in front of Once sets X-Org-Id.
Policy workflow() {
  Policy policy = ietf();
  policy.dialect = "workflow";
  policy.methods = methods({Method::post, Method::put, Method::patch});
  policy.caller = {CallerSource{.kind = CallerSource::Kind::proxy_header, .name = "X-Org-Id"}};
  policy.scope = {ScopePart::caller, ScopePart::path};
  policy.in_flight = InFlight::reject;
  policy.on_unknown = OnUnknown::takeover;
  policy.wording.replay_header = "Idempotent-Replayed";
  return policy;
}

// Appends to Durable Streams: the path is the stream, and all who may append to it share its keys.
Policy streams() {
  Policy policy = ietf();
  policy.dialect = "streams";
  policy.key.max_length = 256;
  policy.methods = methods({Method::post});
  policy.scope = {ScopePart::path};
  policy.wording.mismatch_status = 409;
  policy.wording.mismatch_code = "IDEMPOTENCY_MISMATCH";
  policy.wording.mismatch_type = "idempotency-mismatch";
  policy.wording.mismatch_title = "Idempotency Key Mismatch";
  return policy;
}

struct Entry {
  std::string_view name;
  Policy (*make)();
};

constexpr std::array entries = {Entry{"ietf", ietf}, Entry{"stripe", stripe}, Entry{"platform", platform},
                                Entry{"workflow", workflow}, Entry{"streams", streams}};

constexpr auto all_names = [] {
  std::array<std::string_view, entries.size()> all;
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = entries[i].name;
  return all;
}();

}  // namespace

std::optional<Policy> dialect(std::string_view name) {
  for (const Entry& entry : entries) {
    if (entry.name == name) return entry.make();
  }
  return std::nullopt;
}

std::span<const std::string_view> dialect_names() {
  return all_names;
}

}  // namespace once::core
