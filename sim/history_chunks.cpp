// Checks responses that are recorded as they stream: only the owner appends, what was acknowledged exists, and readers
// see exactly that.
#include <algorithm>

#include <fmt/format.h>

#include "sim/history.hpp"
#include "sim/names.hpp"

namespace once::sim {

void History::Fact::append(const OutcomeBytes& chunk) {
  chunks.push_back(chunk);
  perhaps_chunk = nullptr;
}

void History::Fact::drop_chunks() {
  in_chunks = false;
  chunks.clear();
  perhaps_chunk = nullptr;
}

void History::appended(Key& key, const Op& op) {
  const std::string who = fmt::format("key {}: {}", name(op.id), short_hex(op.nonce));
  Fact& held = key.now;
  const bool owns = held.state == Fact::State::started && held.nonce == op.nonce;
  if (op.status == OpStatus::lost) {
    const bool may_differ = !key.perhaps.empty() || held.aged || held.expires_at <= latest_;
    if (owns && !may_differ) violated(who + " owns the claim and was refused a chunk");
    return;
  }
  if (!owns) return violated(fmt::format("{} appended a chunk to what is {}", who, to_text(held)));
  if (op.chunk == held.chunks.size() + 1 && held.perhaps_chunk) held.append(held.perhaps_chunk);
  if (op.chunk > held.chunks.size()) return violated(fmt::format("{} appended chunk {} after a gap", who, op.chunk));
  if (op.chunk < held.chunks.size()) return;
  held.append(op.outcome);
  is_durable(held);
  changed(key);
}

// The first chunk is the head.
std::size_t History::Fact::body_bytes() const {
  std::size_t bytes = 0;
  for (std::size_t i = 1; i < chunks.size(); ++i) bytes += chunks[i]->size();
  return bytes;
}

void History::is_durable(const Fact& held) {
  std::size_t& most = durable_[began_under(held.nonce)];
  most = std::max(most, held.body_bytes());
  if (held.stopped) is_stopped(held);
}

std::size_t History::durable_of(unsigned execution) const {
  if (has_recorded(execution) && !stopped(execution)) return std::string::npos;
  const auto found = durable_.find(executions_[execution].nonce);
  return found == durable_.end() ? 0 : found->second;
}

void History::append_failed(Key& key, const Op& op) {
  Fact& held = key.now;
  const bool owns = held.state == Fact::State::started && held.nonce == op.nonce;
  if (owns && op.fault == StoreFault::unavailable && op.chunk == held.chunks.size()) held.perhaps_chunk = op.outcome;
}

void History::check_chunks(Key& key, const Op& op) {
  const std::string what = fmt::format("key {}: a read", name(op.id));
  if (!op.record || !may_have_chunks(*op.record)) {
    if (!op.chunks.empty()) violated(what + " gave chunks without a record that has any");
    const bool succeeded = op.record && op.record->state == State::succeeded;
    const bool certain = key.perhaps.empty() && key.now.state == Fact::State::succeeded;
    if (succeeded && certain && !gives(key.now, *op.record)) {
      violated(fmt::format("{} gave another outcome than the recorded one; it is {}", what, to_text(key.now)));
    }
    return;
  }
  const bool kept = op.record->state == State::succeeded;
  const auto fits = [&](const Fact& fact) {
    const bool same = fact.nonce == op.record->nonce && fact.state == state_of(op.record->state);
    return same && (!kept || gives(fact, *op.record));
  };
  const auto written = std::ranges::find_if(key.perhaps, fits);
  if (!fits(key.now) && written == key.perhaps.end()) {
    return violated(fmt::format("{} shows {} by {}, but it is {}", what, text_of(op.record->state),
                                short_hex(op.record->nonce), to_text(key.now)));
  }
  Fact& held = fits(key.now) ? key.now : *written;
  if (held.chunks.empty() && !op.chunks.empty()) held.chunks = held.earlier;
  const std::size_t end = op.chunk + op.chunks.size();
  chunks_read_ += op.chunks.size();
  if (!op.chunks.empty() && end == held.chunks.size() + 1 && held.perhaps_chunk) {
    held.append(held.perhaps_chunk);
    is_durable(held);
  }
  std::size_t bytes = 0;
  for (std::size_t i = op.chunk; i < end; ++i) {
    const std::string& chunk = *op.chunks[i - op.chunk];
    bytes += chunk.size();
    if (i < held.chunks.size() && *held.chunks[i] == chunk) continue;
    return violated(
        fmt::format("{} gave \"{}\" as chunk {}, which {} did not append", what, chunk, i, short_hex(held.nonce)));
  }
  if (kept && held.perhaps_chunk && end == held.chunks.size()) {
    const bool had_room = op.chunks.empty() || bytes + held.perhaps_chunk->size() <= op.chunk_bytes;
    if (had_room) held.perhaps_chunk = nullptr;  // no more chunk can follow
  }
  const bool may_be_gone = held.expires_at <= latest_;  // if the clock was set back since
  if (end >= held.chunks.size() || may_be_gone) return;
  const bool full = !op.chunks.empty() && bytes + held.chunks[end]->size() > op.chunk_bytes;
  if (!full) violated(fmt::format("{} missed chunk {} of {}", what, end, short_hex(held.nonce)));
}

void History::chunks_acknowledged(const Op& op) {
  if (op.status != OpStatus::done || leaves_out(op.id)) return;
  const bool reads = op.verb == Verb::read && !op.chunks.empty();
  if (op.verb != Verb::append && !reads) return;
  const std::size_t there = op.verb == Verb::append ? op.chunk + 1 : op.chunk + op.chunks.size();
  const Nonce& nonce = reads ? op.record->nonce : op.nonce;
  std::size_t& most = acknowledged_chunks_[nonce];
  most = std::max(most, there);
  const Fact& safe = keys_[op.id].safe.now;
  if (!only_acknowledged_counts_ || !safe.has_chunks() || safe.nonce != nonce || there <= safe.chunks.size()) return;
  violated(fmt::format("key {}: {} chunks of {} were reported before the replica had them", name(op.id), there,
                       short_hex(nonce)));
}

// Chunks that were reported must not be lost in a failover, like outcomes.
void History::check_chunks_after_failover(const OperationId& id, const Fact& held) {
  if (!only_acknowledged_counts_ || !held.has_chunks()) return;
  const auto acknowledged = acknowledged_chunks_.find(held.nonce);
  // A claim that expired and arrived again begins without chunks, so the earlier ones count, too.
  if (acknowledged == acknowledged_chunks_.end() ||
      acknowledged->second <= std::max(held.chunks.size(), held.earlier.size()))
    return;
  violated(fmt::format("key {}: {} chunks of {} were reported, and {} are left after the failover", name(id),
                       acknowledged->second, short_hex(held.nonce), held.chunks.size()));
}

}  // namespace once::sim
