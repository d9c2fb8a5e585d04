// Checks what backends do and clients receive.
#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "sim/history.hpp"
#include "sim/names.hpp"

namespace once::sim {

unsigned History::executed(const Asked& asked, const Nonce& nonce, std::uint64_t fence) {
  const auto number = static_cast<unsigned>(executions_.size());
  world_.note(fmt::format("backend: execution {} of operation {} ({}), fence {}", number, asked.operation,
                          short_hex(nonce), fence));
  if (!executed_nonces_.insert(nonce).second) {
    violated(fmt::format("operation {}: two executions under one claim", asked.operation));
  }
  if (!made_.contains(nonce)) violated(fmt::format("operation {}: an execution without a claim", asked.operation));
  executions_.push_back({.asked = asked, .nonce = nonce});
  return number;
}

void History::response_received(unsigned execution, int status) {
  executions_[execution].received = status;
}

void History::committed(const OperationId& id, const Record& record, unsigned execution) {
  const Nonce& nonce = record.nonce;
  Key& key = keys_[id];
  store_clock_at(clock_->now());
  world_.note(fmt::format("database: execution {} ({}) is committed", execution, short_hex(nonce)));
  const bool open = key.now.state == Fact::State::started || key.now.state == Fact::State::unknown;
  if (!open || key.now.nonce != executions_[execution].nonce) {
    violated(fmt::format("key {}: execution {} was committed without owning the claim", name(id), execution));
  }
  if (++key.effects > 1) violated(fmt::format("key {}: the effect was committed {} times", name(id), key.effects));
  executions_[execution].committed = true;
  key.now.state = Fact::State::succeeded;
  key.now.nonce = nonce;
  key.now.expires_at = record.expires_at;
  key.now.outcome = record.outcome;
  key.now.drop_chunks();
  key.now.stopped = false;
  is_recorded(key);
}

void History::goes_to_backend(const OperationId& id, const Nonce& nonce, const Executor& process, const Moment& at) {
  const Fact& held = keys_[id].now;
  if (clocks_are_steady_ && held.state == Fact::State::started && held.nonce == nonce && held.lease_until <= at.time) {
    violated(fmt::format("key {}: {} was sent when its lease had ended", name(id), short_hex(nonce)));
  }
  const auto [sent, first] = sent_by_.try_emplace({id, &process}, nonce);
  if (!first && at_backend_.contains(sent->second)) {
    violated(fmt::format("key {}: {} was sent by a process that is executing {}", name(id), short_hex(nonce),
                         short_hex(sent->second)));
  }
  const auto forgotten = lost_by_store_.find({id, &process});
  if (forgotten != lost_by_store_.end() && std::exchange(forgotten->second, 2) < 2) {
    violated(fmt::format("key {}: {} was sent by a process that has not recorded in the emptied store what it had sent",
                         name(id), short_hex(nonce)));
  }
  const auto lost = lost_received_.find(nonce);
  if (lost != lost_received_.end() && lost->second <= at.losses) {
    violated(
        fmt::format("key {}: {} was sent by a process that was answered that it is lost", name(id), short_hex(nonce)));
  }
  sent->second = nonce;
  handed_to_.erase(nonce);  // a request was sent under this claim itself
  at_backend_.insert(nonce);
  // The request is sent once, under this claim. It also serves the other claims that the process got meanwhile.
  for (const Nonce& given : given_to_[{id, &process}]) {
    if (given != nonce) handed_to_[given] = nonce;
  }
  given_to_.erase({id, &process});
}

const Nonce& History::began_under(const Nonce& nonce) const {
  const auto handed = handed_to_.find(nonce);
  return handed == handed_to_.end() || executed_nonces_.contains(nonce) ? nonce : handed->second;
}

void History::gateway_received(const Op& op, const Executor& process) {
  if (op.status == OpStatus::failed) {
    world_.note(fmt::format("gateway: {} by {} {}: {}", name_of(op.verb), short_hex(op.nonce),
                            op.fault == StoreFault::refused ? "refused" : "failed", op.error));
  }
  if (op.verb == Verb::renew && op.status == OpStatus::lost)
    lost_received_.try_emplace(op.nonce, lost_received_.size() + 1);
  loss_received(op, process);
  chunks_acknowledged(op);
  if (op.verb != Verb::claim || leaves_out(op.id)) return;
  if (op.status == OpStatus::failed) {
    failed_received_.insert(op.nonce);
  }
  if (op.status != OpStatus::done || op.verdict != Verdict::execute) return;
  failed_received_.erase(op.nonce);
  given_to_[{op.id, &process}].push_back(op.nonce);
  const auto sent = sent_by_.find({op.id, &process});
  if (sent != sent_by_.end()) handed_to_.try_emplace(op.nonce, began_under(sent->second));
}

// A process that learns that the store lost its stream must record it there again, or not send it again.
void History::loss_received(const Op& op, const Executor& process) {
  if (op.status == OpStatus::failed) lost_by_store_.erase({op.id, &process});
  const bool lost = op.verb == Verb::append && op.status == OpStatus::lost;
  if (lost && keys_[op.id].now.state == Fact::State::none) lost_by_store_.try_emplace({op.id, &process});
}

void History::check_claims_released() {
  for (const Nonce& nonce : failed_received_) {
    if (!made_.contains(nonce)) continue;
    violated(fmt::format("claim {} was made, its owner was answered that it failed, and it was never released",
                         short_hex(nonce)));
  }
}

void History::answered(const Answer& answer) {
  const bool ours = !answer.code.empty();
  const bool gives_outcome = answer.idempotency_status == "executed" || answer.idempotency_status == "replayed" ||
                             answer.idempotency_status == "attached";
  if (ours || !gives_outcome) return;
  if (answer.idempotency_status == "replayed") ++replays_;
  unsigned number = 0;
  if (std::sscanf(answer.body.c_str(), "resolved=%u", &number) == 1) return check_resolved(answer, number);
  const std::size_t at = answer.body.find("execution=");
  if (at == std::string::npos || std::sscanf(answer.body.c_str() + at, "execution=%u", &number) != 1 ||
      number >= executions_.size()) {
    return violated(
        fmt::format("operation {}: an answer that no execution gave: {}", answer.asked.operation, answer.body));
  }
  const Execution& execution = executions_[number];
  if (execution.asked != answer.asked) {
    violated(
        fmt::format("operation {} of caller {}, content {}: was given the answer of operation {} of caller {}, "
                    "content {}",
                    answer.asked.operation, answer.asked.caller, answer.asked.content, execution.asked.operation,
                    execution.asked.caller, execution.asked.content));
  }
  const bool failed_or_refused = answer.status >= 500 || is_refusal(answer.status);
  if (!failed_or_refused) {
    const auto recorded = recorded_.find(execution.nonce);
    if (recorded != recorded_.end()) {
      check_same_answer(answer, recorded->second);
    } else {
      violated(
          fmt::format("operation {}: execution {} was sent before it was recorded", answer.asked.operation, number));
    }
  }
  if (!backends_commit_ || failed_or_refused) return;
  const bool success = answer.status < 300;
  if (success && !execution.committed) {
    violated(fmt::format("operation {}: the success of execution {} was sent, but it was never committed",
                         answer.asked.operation, number));
  }
  if (execution.committed && !answer.body.ends_with(committed_mark)) {
    violated(fmt::format("operation {}: execution {} committed another answer than {} {}", answer.asked.operation,
                         number, answer.status, answer.body));
  }
}

void History::check_resolved(const Answer& answer, unsigned decision) {
  const std::string what = fmt::format("operation {}: the response of operator {}", answer.asked.operation, decision);
  if (decision >= decisions_.size()) return violated(what + " was sent, and there is none");
  const OperatorDecision& resolved = decisions_[decision];
  if (resolved.id != answer.id) violated(what + " was sent for another key");
  if (resolved.fingerprint != answer.fingerprint) violated(what + " was sent for another request");
  if (answer.status != 201 || answer.body != resolved_body(decision)) violated(what + " was sent with another body");
  if (!resolved.recorded) return violated(what + " was sent before it was recorded");
  check_same_answer(answer, *resolved.recorded);
}

// Until an operator deletes the record or it expires, all clients must get the same answer.
void History::check_same_answer(const Answer& answer, unsigned generation) {
  const auto [found, first] = first_answers_.try_emplace({answer.id, generation}, answer.body);
  if (first || found->second == answer.body) return;
  violated(fmt::format("operation {}: sent as \"{}\" and then as \"{}\"", answer.asked.operation, found->second,
                       answer.body));
}

void History::check_final_answer(const Answer& answer, OnUnknown on_unknown) {
  const bool outcome = answer.code.empty() && answer.status < 500 && !is_refusal(answer.status);
  const bool unknown =
      answer.code == "outcome-unknown" || (answer.code == "cut-off" && answer.idempotency_status == "unknown");
  const bool held = unknown && on_unknown == OnUnknown::hold;
  if (outcome || held || answer.code == "response-not-kept" || answer.code == "key-mismatch" ||
      answer.code == "key-expired") {
    return;
  }
  violated(
      fmt::format("operation {} has no answer in the end: {} {}", answer.asked.operation, answer.status, answer.code));
}

}  // namespace once::sim
