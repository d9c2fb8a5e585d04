#include "admin/key_action.hpp"

#include <fmt/format.h>

#include "core/route_label.hpp"
#include "gateway/stream/stopped_stream.hpp"
#include "store/claim_steps.hpp"

namespace once::admin {

namespace {

// Whether the record belongs to a resource, by its label: the claim of a conditional write, or the marker of a
// resource's deletion. No route pattern looks like this; scopes of the claims API may.
bool is_of_a_resource(const KeyInfo& key) {
  const std::string_view route = key.route ? route_in(*key.route) : std::string_view();
  return route == "(resource)" || route == "(life)";
}

// The ttl of the key when it was claimed: that of its route, or a little more.
Duration ttl_of(const KeyInfo& key) {
  return key.expires_at == Time::max() ? Duration::max() : key.expires_at - key.started_at;
}

// Why the key cannot be stopped; nullopt: it may be possible. find_stream() decides about a succeeded key.
std::optional<Problem> stop_obstacle(const KeyInfo& key, Time now) {
  if (is_live(key, now) || key.state == State::succeeded) return std::nullopt;
  if (key.state == State::started || key.state == State::unknown) {
    return problem(ProblemKind::outcome_unknown,
                   "The owner of this key is gone, so there is nothing to stop. It can be resolved or released.");
  }
  return problem(ProblemKind::claim_lost,
                 fmt::format("Only a response that streams can be stopped; this key is {}.", name_of(key.state)));
}

// Whether a stop came too late: the owner, or the backend for it, had recorded another outcome.
bool ended_unstopped(const Op& op) {
  return op.verb == Verb::finish && op.status == OpStatus::done && another_outcome_stands(op) &&
         !gateway::is_stopped(*op.record);
}

}  // namespace

std::string_view name_of(Action action) {
  switch (action) {
    case Action::release: return "release";
    case Action::resolve: return "resolve";
    case Action::forget: return "forget";
    case Action::stop: return "stop";
  }
  return "";
}

std::string_view done_name(Action action) {
  switch (action) {
    case Action::release: return "released";
    case Action::resolve: return "resolved";
    case Action::forget: return "forgotten";
    case Action::stop: return "stopped";
  }
  return "";
}

std::string_view state_after(Action action, const ActionRequest& asked) {
  switch (action) {
    case Action::resolve: return name_of(asked.state);
    case Action::stop: return name_of(State::succeeded);
    case Action::release:
    case Action::forget: break;
  }
  return "none";
}

Op op_of(const KeyInfo& key, Action action, const ActionRequest& asked) {
  Op op{.verb = action == Action::resolve ? Verb::resolve : Verb::forget, .id = key.id, .nonce = key.nonce};
  op.seen_state = key.state;
  if (action == Action::release || action == Action::forget) return op;
  if (action == Action::stop) {
    gateway::prepare_stop(op, asked.outcome);
  } else {
    op.final_state = asked.state;
    op.outcome = asked.outcome;
    op.body_kept = asked.state == State::succeeded && asked.outcome == nullptr ? BodyKept::no : BodyKept::yes;
  }
  op.terms.ttl = ttl_of(key);
  if (key.tenant) op.tenant = *key.tenant;
  if (key.route) op.route = *key.route;
  return op;
}

std::optional<Problem> obstacle(const KeyInfo& key, Action action, const ActionRequest& asked, Time now) {
  if (version_of(key) != asked.version) {
    return problem(ProblemKind::claim_lost, fmt::format("The key has changed: it is {} now.", name_of(key.state)));
  }
  if (action == Action::stop) {
    return stop_obstacle(key, now);
  }
  if (is_live(key, now)) return problem(ProblemKind::in_flight, "The request of this key is still running.");
  if (action == Action::resolve && is_of_a_resource(key)) {
    return problem(
        ProblemKind::parameter_invalid,
        "This record belongs to a resource, not to a request, so it has no response. It can be released or forgotten.");
  }
  if (action == Action::forget || key.state == State::unknown || key.state == State::started) return std::nullopt;
  return problem(ProblemKind::claim_lost, fmt::format("Only a key that is unknown, or whose owner is gone, can be {}; "
                                                      "this one is {}.",
                                                      done_name(action), name_of(key.state)));
}

Task<Effect> carry_out(Op& op, const KeyInfo& key, Lanes& store, Waiters& waiters, Executor& home) {
  co_await store.run(op, home);
  if (ended_unstopped(op)) op.status = OpStatus::lost;
  // Also if the result is unknown: waiters check again.
  waiters.notify(key.id);
  // `lost` is also the answer if an earlier try was done and its answer was lost.
  Op lookup{.verb = Verb::lookup, .id = key.id};
  if (op.status != OpStatus::done) co_await store.run(lookup, home);
  co_return effect_of(op, key, lookup);
}

}  // namespace once::admin
