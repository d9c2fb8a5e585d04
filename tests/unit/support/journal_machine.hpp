// A machine with a journal on a simulated disk: it starts, it is killed, it loses power and starts again. Beside it a
// model of what every key may be by now, which every answer is held to.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/log.hpp"
#include "core/decision.hpp"
#include "sim/random.hpp"
#include "sim/simulated_disk.hpp"
#include "store/journal/journal_store.hpp"
#include "store/verbs.hpp"
#include "tests/unit/support/manual_clock.hpp"

namespace once::support {

class JournalMachine {
 public:
  explicit JournalMachine(std::uint64_t seed, const JournalSettings& settings = {})
      : platter(seed), settings_(settings), random_(seed) {
    settings_.recovery_threads = 1;
  }

  Platter platter;
  ManualClock clock;
  std::string refusal;  // why the last start() failed

  bool start() {
    disk_ = std::make_unique<SimulatedDisk>(platter);
    auto opened = JournalStore::open(*disk_, clock, random_, log_, settings_);
    if (!opened) {
      refusal = opened.error().detail;
      disk_.reset();
      return false;
    }
    store_ = std::move(*opened);
    return true;
  }
  // In order.
  void close() {
    store_.reset();
    disk_.reset();
  }
  void kill() {
    platter.end_processes();
    close();
  }
  void lose_power() {
    platter.lose_power();
    close();
  }

  JournalStore& store() { return *store_; }
  bool running() const { return store_ != nullptr; }
  JournalSettings& settings() { return settings_; }  // of the next start

  void run(std::vector<Op>& ops) {
    std::vector<Op*> batch;
    for (Op& op : ops) batch.push_back(&op);
    store_->execute(batch);
  }
  Op run(Op op) {
    Op* const batch = &op;
    store_->execute({&batch, 1});
    return op;
  }

 private:
  JournalSettings settings_;
  SeededRandom random_;
  Log log_{clock, -1, LogLevel::off, LogFormat::json};
  std::unique_ptr<SimulatedDisk> disk_;
  std::unique_ptr<JournalStore> store_;
};

// How many seeds a test draws: ONCE_TIMES=20 in the environment makes it twenty times as many.
inline std::uint64_t seeds(std::uint64_t usual) {
  const char* times = std::getenv("ONCE_TIMES");
  return usual * (times == nullptr ? 1 : std::strtoull(times, nullptr, 10));
}

// A key, a nonce and an outcome from a number.
template <class Blob>
Blob numbered(std::uint64_t number) {
  Blob blob;
  SeededRandom(number * 1000003 + Blob::size).fill(blob.bytes);
  return blob;
}
inline OutcomeBytes outcome_of(std::size_t size, std::uint64_t number = 0) {
  std::string bytes(size, '\0');
  Draw draw(number);
  for (char& byte : bytes) byte = static_cast<char>(draw.next());
  return std::make_shared<const std::string>(std::move(bytes));
}

inline Op claim_op(std::uint64_t key, std::uint64_t nonce, Duration ttl = std::chrono::hours(24)) {
  return {.verb = Verb::claim,
          .id = numbered<OperationId>(key),
          .nonce = numbered<Nonce>(nonce),
          .fingerprint = {{1}},
          .terms = {.ttl = ttl}};
}
inline Op owner_op(Verb verb, std::uint64_t key, std::uint64_t nonce) {
  return {.verb = verb, .id = numbered<OperationId>(key), .nonce = numbered<Nonce>(nonce)};
}
inline Op finish_op(std::uint64_t key, std::uint64_t nonce, OutcomeBytes outcome,
                    Duration ttl = std::chrono::hours(24)) {
  Op op = owner_op(Verb::finish, key, nonce);
  op.terms.ttl = ttl;
  op.outcome = std::move(outcome);
  return op;
}
inline Op lookup_op(std::uint64_t key) {
  return {.verb = Verb::lookup, .id = numbered<OperationId>(key)};
}
// Chunks of a claim, each of which its nonce and number say. Some are empty.
inline OutcomeBytes chunk_of(const Nonce& nonce, std::uint32_t number) {
  const std::uint64_t seed = nonce.bytes[0] + nonce.bytes[1] * 256U + number * 65536U;
  return outcome_of(Draw(seed).below(90), seed);
}
inline Op append_op(const OperationId& id, const Nonce& nonce, std::uint32_t number) {
  return {.verb = Verb::append, .id = id, .nonce = nonce, .outcome = chunk_of(nonce, number), .chunk = number};
}
inline Op append_op(std::uint64_t key, std::uint64_t nonce, std::uint32_t number) {
  return append_op(numbered<OperationId>(key), numbered<Nonce>(nonce), number);
}
inline Op read_op(const OperationId& id, std::uint32_t from = 0) {
  return {.verb = Verb::read, .id = id, .chunk = from, .chunk_bytes = std::size_t{64} << 20U};
}
inline Op read_op(std::uint64_t key, std::uint32_t from = 0) {
  return read_op(numbered<OperationId>(key), from);
}
// How many chunks a read found. They are those of chunk_of().
inline std::size_t chunks_in(const Op& op) {
  for (std::uint32_t i = 0; i < op.chunks.size(); ++i) {
    EXPECT_EQ(*op.chunks[i], *chunk_of(op.record->nonce, op.chunk + i)) << op.chunk + i;
  }
  return op.chunks.size();
}

// What each key may be by now. One that was told is one thing only; an op whose answer was `unavailable` leaves both
// what was and what it would have made of it.
class JournalModel {
 public:
  using May = std::optional<Record>;  // empty: no record

  // Whether bodies may be left out for want of room.
  bool bodies_may_go = false;
  // A loss of power may take back what was told, so fences too.
  bool fences_may_repeat = false;

  const std::vector<May>& of(const OperationId& id) {
    auto& all = keys_[id];
    if (all.empty()) all.emplace_back();
    return all;
  }

  // How many chunks of this claim there are, and how many there may be.
  struct Chunks {
    std::uint32_t certain = 0;
    std::uint32_t most = 0;
  };
  Chunks& chunks_of(const Nonce& nonce) { return chunks_[nonce]; }
  // That a read of a record in this state finds for certain.
  std::uint32_t certain_chunks(const May& record) {
    return record && may_have_chunks(*record) ? chunks_of(record->nonce).certain : 0;
  }

  // Holds an answer to what was known, and learns from it.
  void learn(const Op& op) {
    learn_chunks(op);
    auto& all = keys_[op.id];
    if (all.empty()) all.emplace_back();
    if (op.status == OpStatus::failed) {
      EXPECT_FALSE(op.record.has_value());
      EXPECT_FALSE(op.error.empty());
      if (op.fault == StoreFault::unavailable) {
        for (std::size_t i = 0, count = all.size(); i < count; ++i) add_results(all, op, May(all[i]));
      } else if (op.fault == StoreFault::full) {
        const bool ends = op.verb == Verb::finish || op.verb == Verb::release;
        EXPECT_FALSE(ends && std::ranges::all_of(all, [&](const May& may) { return is_live_claim(may, op.nonce); }))
            << "room is kept for the end of a live claim";
      }
      return;
    }
    std::vector<May> left;
    resent_ = false;
    for (const May& may : all) {
      if (auto result = fits(op, may)) left.push_back(*std::move(result));
    }
    EXPECT_FALSE(left.empty()) << describe(op) << "\nbut it may be:" << describe(all);
    if (left.empty()) left.push_back(op.record);
    all = {left.front()};  // those that fit look the same
    if (op.verb == Verb::claim && op.verdict == Verdict::execute) {
      if (!resent_) chunks_[op.nonce] = {};  // a nonce may be used again, once the first claim is gone
      if (!fences_may_repeat && !resent_) EXPECT_GT(op.record->fence, last_fence_);
      last_fence_ = std::max(last_fence_, op.record->fence);
    }
  }

  // The process ended: nobody owns anything now.
  void lapse() {
    for (auto& [id, all] : keys_) {
      for (May& may : all) {
        if (may) may->lease_until = Time::min();
      }
    }
  }

  // Reads every key.
  void check(JournalMachine& machine) {
    for (auto& [id, all] : keys_) learn(machine.run(read_op(id)));
  }

  std::map<OperationId, std::vector<May>>& keys() { return keys_; }

  // As a store may tell it: the lease is the process's own affair.
  static bool same(const Record& a, const Record& b) {
    const auto outcome = [](const Record& record) { return record.outcome == nullptr ? "" : *record.outcome; };
    return a.state == b.state && a.body_kept == b.body_kept && a.attempt == b.attempt && a.nonce == b.nonce &&
           a.fingerprint == b.fingerprint && a.started_at == b.started_at && a.expires_at == b.expires_at &&
           forget_at(a) == forget_at(b) && (a.fence == b.fence || a.fence == any_fence || b.fence == any_fence) &&
           (a.outcome == nullptr) == (b.outcome == nullptr) && outcome(a) == outcome(b);
  }
  static Time forget_at(const Record& record) { return std::max(record.forget_at, record.expires_at); }
  static bool same(const May& a, const May& b) { return a.has_value() == b.has_value() && (!a || same(*a, *b)); }

 private:
  void learn_chunks(const Op& op) {
    const bool in_doubt = op.status == OpStatus::failed && op.fault == StoreFault::unavailable;
    if (op.verb == Verb::claim && in_doubt) chunks_[op.nonce].certain = 0;
    if (op.verb == Verb::append) {
      EXPECT_EQ(op.error.find("missing"), std::string::npos) << op.error;
      Chunks& known = chunks_[op.nonce];
      if (op.status == OpStatus::done) known.certain = std::max(known.certain, op.chunk + 1);
      if (in_doubt || op.status == OpStatus::done) known.most = std::max(known.most, op.chunk + 1);
    }
    if (op.verb != Verb::read || op.status != OpStatus::done) return;
    const std::size_t found = op.chunk + chunks_in(op);
    if (!op.record || !may_have_chunks(*op.record)) {
      EXPECT_TRUE(op.chunks.empty());
      return;
    }
    Chunks& known = chunks_[op.record->nonce];
    EXPECT_GE(found, known.certain) << describe(op);
    EXPECT_LE(found, std::max(known.most, op.chunk)) << describe(op);
    if (op.chunk == 0) known.certain = known.most = static_cast<std::uint32_t>(found);
  }

  bool same_but_for_body(const Record& found, Record wanted) const {
    if (same(found, wanted)) return true;
    if (!bodies_may_go || found.outcome != nullptr || found.body_kept == BodyKept::yes) return false;
    wanted.outcome = nullptr;
    wanted.body_kept = BodyKept::no;
    return same(found, wanted);
  }

  // What is there if the answer is right and `may` was there before; nullopt if the answer is not right then.
  std::optional<May> fits(const Op& op, const May& may) {
    const May aged = seen(may, op.now);
    const Record* before = aged ? &*aged : nullptr;
    switch (op.verb) {
      case Verb::read:
      case Verb::lookup:
        if (op.record.has_value() != (before != nullptr)) return std::nullopt;
        if (before != nullptr && !same(*op.record, *before)) return std::nullopt;
        return before == nullptr ? May() : known(*op.record, *before);
      case Verb::claim: return fits_claim(op, before);
      case Verb::renew: {
        Record record = before == nullptr ? Record() : *before;
        const bool renews = before != nullptr && renew(record, op, op.now) == Written::yes;
        if (renews != (op.status == OpStatus::done)) return std::nullopt;
        record.lease_until = Time::max();
        return renews ? May(record) : may;
      }
      case Verb::resolve:
      case Verb::finish: {
        Record record = before == nullptr ? Record() : *before;
        const bool finishes = before != nullptr && ended(record, op) != Written::no;
        if (finishes != (op.status == OpStatus::done)) return std::nullopt;
        if (finishes && !same_but_for_body(*op.record, record)) return std::nullopt;
        return finishes ? May(*op.record) : may;
      }
      case Verb::release: {
        const bool releases = before != nullptr && may_release(*before, op);
        if (releases != (op.status == OpStatus::done)) return std::nullopt;
        return releases ? released(*before) : may;
      }
      case Verb::forget: {
        const bool forgets = before != nullptr && may_forget(*before, op, op.now);
        if (forgets != (op.status == OpStatus::done)) return std::nullopt;
        return forgets ? May() : may;
      }
      case Verb::append: {
        const bool appends = before != nullptr && may_append(*before, op);
        return appends == (op.status == OpStatus::done) ? std::optional(may) : std::nullopt;
      }
    }
    return std::nullopt;
  }

  static bool is_live_claim(const May& may, const Nonce& nonce) {
    return may && may->state == State::started && may->lease_until == Time::max() && may->nonce == nonce;
  }

  static Written ended(Record& record, const Op& op) {
    return op.verb == Verb::resolve ? resolve(record, op, op.now) : finish(record, op, op.now);
  }

  static May seen(May may, Time now) {
    if (!may || forgotten(*may, now)) return std::nullopt;
    age(*may, now);
    return may;
  }

  std::optional<May> fits_claim(const Op& op, const Record* before) {
    const bool resent = before != nullptr && is_same_claim(*before, op);
    const Verdict verdict = resent ? Verdict::execute : decided(op, before);
    if (verdict != op.verdict || !op.record) return std::nullopt;
    if (verdict != Verdict::execute || resent) {
      if (!same(*op.record, *before)) return std::nullopt;
      resent_ = resent;
      return known(*op.record, *before);
    }
    Record claimed = made(op, before);
    if (!same(*op.record, claimed)) return std::nullopt;
    claimed.fence = op.record->fence;
    return claimed;
  }

  // A copy of a claim that has ended is given nothing.
  static Verdict decided(const Op& op, const Record* before) {
    const Verdict verdict = decide(facts_of(before, op.fingerprint, op.terms, op.now));
    const bool late = before != nullptr && is_ended_claim(*before, op, op.now);
    return late && verdict == Verdict::execute ? Verdict::in_flight : verdict;
  }

  static Record known(Record found, const Record& before) {
    found.lease_until = before.lease_until;
    return found;
  }
  static Record made(const Op& op, const Record* before) {
    Record record = claimed(before, op.fingerprint, op.nonce, op.terms, op.now);
    record.fence = any_fence;
    record.lease_until = Time::max();
    return record;
  }

  void add_results(std::vector<May>& all, const Op& op, const May& may) const {
    const May aged = seen(may, op.now);
    const Record* before = aged ? &*aged : nullptr;
    if (op.verb == Verb::claim && decided(op, before) == Verdict::execute) all.emplace_back(made(op, before));
    if (before == nullptr) return;
    Record record = *before;
    if (writes_outcome(op.verb) && ended(record, op) == Written::yes) {
      all.emplace_back(record);
      record.outcome = nullptr;
      record.body_kept = BodyKept::no;
      if (bodies_may_go && op.verb == Verb::finish) all.emplace_back(record);
    }
    if (op.verb == Verb::release && may_release(*before, op)) all.push_back(released(*before));
    if (op.verb == Verb::forget && may_forget(*before, op, op.now)) all.emplace_back();
  }

  static std::string describe(const Record& record) {
    return "state " + std::to_string(std::to_underlying(record.state)) + ", attempt " +
           std::to_string(std::to_underlying(record.attempt)) + ", fence " +
           std::to_string(std::to_underlying(record.fence)) + ", nonce " + to_hex(record.nonce).substr(0, 6) +
           ", outcome " + (record.outcome == nullptr ? "none" : std::to_string(record.outcome->size())) +
           (record.body_kept == BodyKept::no ? ", not kept" : "") +
           (record.body_kept == BodyKept::in_chunks ? ", in chunks" : "") +
           (record.lease_until == Time::max() ? ", live" : "");
  }
  static std::string describe(const std::vector<May>& all) {
    std::string text;
    for (const May& may : all) text += "\n  " + (may ? describe(*may) : "nothing");
    return text;
  }
  static std::string describe(const Op& op) {
    return "verb " + std::to_string(std::to_underlying(op.verb)) + " on " + to_hex(op.id).substr(0, 6) + " by " +
           to_hex(op.nonce).substr(0, 6) + ", status " + std::to_string(std::to_underlying(op.status)) + ", verdict " +
           std::to_string(std::to_underlying(op.verdict)) + ": " + (op.record ? describe(*op.record) : "nothing");
  }

  static constexpr Fence any_fence{~std::uint64_t{0}};

  std::map<OperationId, std::vector<May>> keys_;
  std::map<Nonce, Chunks> chunks_;
  Fence last_fence_{0};
  bool resent_ = false;  // the last claim was one that had been made before
};

// Draws a workload on few keys: mostly claims and finishes, alone and in batches, the clock moving on between them.
class JournalWorkload {
 public:
  explicit JournalWorkload(std::uint64_t seed, std::uint64_t keys = 12) : draw_(seed), keys_(keys) {}

  std::size_t largest_outcome = 600;
  Duration ttl = std::chrono::hours(24);
  Duration tombstone{};

  // One step; the model learns what was answered.
  void step(JournalMachine& machine, JournalModel& model) {
    if (draw_.one_in(8)) machine.clock.advance(Duration(draw_.below(3000)));
    if (draw_.one_in(5)) machine.store().maintain();
    std::vector<Op> ops = next(model);
    machine.run(ops);
    for (const Op& op : ops) model.learn(op);
  }

  std::vector<Op> next(JournalModel& model) {
    std::vector<Op> ops;
    const std::uint64_t first = draw_.below(keys_);
    const std::uint64_t count = draw_.one_in(3) ? 1 + draw_.below(5) : 1;
    for (std::uint64_t i = 0; i < count; ++i) ops.push_back(next_for((first + i) % keys_, model));
    return ops;
  }

 private:
  Op next_for(std::uint64_t key, JournalModel& model) {
    Op op = claim_op(key, ++nonces_, ttl);
    op.terms.tombstone = tombstone;
    const auto& all = model.of(op.id);
    const auto& last = all[draw_.below(all.size())];
    const bool owned = last && last->state == State::started && last->lease_until == Time::max();
    const std::uint64_t what = draw_.below(26);
    op.terms.on_unknown = draw_.one_in(3) ? OnUnknown::retry : OnUnknown::hold;
    if (what < 2 || (!owned && what < 16)) {
      if (last && draw_.one_in(10)) op.nonce = last->nonce;  // sent again
      return op;
    }
    if (last) op.nonce = last->nonce;
    if (what >= 20) return next_of_stream(op, last, model);
    op.verb = what < 14   ? Verb::finish
              : what < 17 ? Verb::release
              : what < 18 ? Verb::renew
              : what < 19 ? Verb::forget
                          : Verb::lookup;
    if (op.verb == Verb::forget && last) op.seen_state = last->state;
    if (op.verb == Verb::finish) {
      constexpr std::array states = {State::succeeded, State::succeeded, State::failed, State::unknown};
      op.final_state = states[draw_.below(states.size())];
      if (!draw_.one_in(4)) op.outcome = outcome_of(draw_.below(largest_outcome), draw_.next());
      if (op.final_state == State::succeeded && draw_.one_in(3)) op.body_kept = BodyKept::in_chunks;
    }
    return op;
  }

  // Mostly the next chunk, of an owner or of one that lost its claim, and now and then one that was sent before.
  Op next_of_stream(const Op& by, const JournalModel::May& last, JournalModel& model) {
    const std::uint32_t count = model.chunks_of(by.nonce).certain;
    if (!last || last->state != State::started || draw_.one_in(4)) {
      return read_op(by.id, draw_.one_in(3) ? static_cast<std::uint32_t>(draw_.below(count + 1)) : 0);
    }
    const bool again = count > 0 && draw_.one_in(6);
    return append_op(by.id, by.nonce, again ? static_cast<std::uint32_t>(draw_.below(count)) : count);
  }

  Draw draw_;
  std::uint64_t keys_;
  std::uint64_t nonces_ = 0;
};

}  // namespace once::support
