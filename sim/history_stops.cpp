// Checks streams that their callers stop: what is recorded by then becomes the response, the stop is answered only when
// that is durable, and nothing of it changes afterwards.
#include <algorithm>

#include <fmt/format.h>

#include "sim/history.hpp"

namespace once::sim {

namespace {

constexpr std::string_view stopped_mark = "Idempotency-Stopped: true";

}  // namespace

// A stop is made in the name of the owner: only the recorded field distinguishes it.
bool History::is_stop(const Op& op) const {
  const bool succeeds = op.verb == Verb::finish && op.final_state == State::succeeded;
  return succeeds && op.outcome && op.outcome->contains(stopped_mark);
}

// The owner may still be executing: it continues until it learns of the stop.
void History::is_stopped(const Fact& held) {
  const Nonce& sent = began_under(held.nonce);
  stopped_[sent] = {.bytes = held.in_chunks ? std::optional(held.body_bytes()) : std::nullopt,
                    .handed = sent != held.nonce};
  at_backend_.erase(sent);
}

std::optional<History::Stopped> History::stopped(unsigned execution) const {
  const auto found = stopped_.find(executions_[execution].nonce);
  return found == stopped_.end() ? std::nullopt : std::optional(found->second);
}

void History::ends_as(Key& key, End end) {
  const End before = key.ends.empty() ? End::open : key.ends.back().second;
  if (before != end) key.ends.emplace_back(world_.now(), end);
}

void History::stop_answered(const OperationId& id, Time asked_at, bool stopped) {
  const End answered = stopped ? End::stopped : End::ended;
  const auto& ends = keys_[id].ends;
  bool was = false;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const bool over_by_then = i + 1 < ends.size() && ends[i + 1].first < asked_at;
    was = was || (ends[i].second == answered && !over_by_then);
  }
  // If there is no room for the stop's record, the store cannot tell later that the response was stopped.
  const Fact& held = keys_[id].now;
  const bool forgot = !stopped && held.stopped && held.outcome == nullptr;
  // The key's chunks are deleted once it has expired, even if the clock was set back since.
  const bool may_be_gone = held.expires_at <= latest_;
  if (was || forgot || may_be_gone) return;
  violated(fmt::format("key {}: a caller was answered that its response {}, but it is {}", name(id),
                       stopped ? "is stopped" : "had ended", to_text(held)));
}

}  // namespace once::sim
