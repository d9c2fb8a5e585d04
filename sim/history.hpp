// Checks what happened at the store and at the backend against what may happen. The model shares no decisions with the
// store or the gateway: it is a second implementation of the promises in docs/guarantees.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/keys_json.hpp"
#include "sim/world.hpp"
#include "store/search.hpp"
#include "store/store.hpp"

namespace once::sim {

// One key of one caller, and what is asked for under it.
struct Asked {
  unsigned operation = 0;
  unsigned caller = 0;
  unsigned content = 0;  // 0: what it was made for; others: somebody uses the key again

  auto operator<=>(const Asked&) const = default;
};

// Callers send the same: whose request it is, only its header says.
std::string body_of(const Asked& asked);
std::optional<Asked> parse_request(std::string_view authorization, std::string_view body);

// At the end of a body that a backend committed with its effect.
inline constexpr std::string_view committed_mark = " committed";

// Of the response that an operator gives to a key.
std::string resolved_body(unsigned errand);

inline std::string short_hex(const Nonce& nonce) {
  return to_hex(nonce).substr(0, 8);
}

// What a client got.
struct Answer {
  Asked asked;
  int status = 0;
  std::string idempotency_status;
  std::string code;  // of a problem document
  std::string body;
  OperationId id{};
  Fingerprint fingerprint{};
};

class History {
 public:
  explicit History(World& world) : world_(world) {}

  // At the store, in the order in which it acts. `told` is what it answered; a journal that failed in the middle may
  // have written all the same.
  void store_acted(const Op& op);
  // Keys of a route whose requests are not held back by them. The model does not follow these.
  void leave_out(std::string_view route) { left_out_route_ = route; }
  void asks(const Op& op);
  bool leaves_out(const OperationId& id) const { return left_out_.contains(id); }
  // The same where nothing was changed and nobody waited.
  void store_answered_at_once(const Op& op);
  // The process with an unshared store has ended: its claims have no owner any more.
  void owner_ended();
  // What the store holds after a restart, for every id: it must be what was told, or what may have been written. As it
  // is written: an expired record is not aged, for as a tombstone it could be any of these.
  void found_after_restart(const OperationId& id, const std::optional<Record>& record);
  std::vector<OperationId> ids() const;
  // The clock that decides. The model reads it directly and not through the store.
  void set_store_clock(const Clock& clock) { clock_ = &clock; }
  // Servers with replicas: writes of the last `lag` may be lost when one takes over.
  void replicas_lag(Duration lag) { lag_ = lag; }
  // Or: nothing counts before it was acknowledged, and from then on nothing may be lost.
  void replicas_are_waited_for() { only_acknowledged_counts_ = true; }
  // The key as it now stands was told to somebody as lasting.
  void acknowledged(const OperationId& id);
  // What a replica holds when it takes over.
  void failed_over(const OperationId& id, const std::optional<Record>& record, const std::vector<OutcomeBytes>& chunks);
  // The server has lost all data, which counts as gone.
  void store_emptied();
  // The store's clock has been this far: what expires by then may be gone, even if the clock is set back later.
  void store_clock_at(Time now) { latest_ = std::max(latest_, now); }

  // At a gateway. One that is told that its claim failed takes it back, as long as it lives: it may have been made.
  // A process never starts what it has at work itself: that execution goes on under the claim which another request of
  // the process was given.
  void told(const Op& op, const Executor& process);
  void takes_back(const Nonce& nonce) { told_failed_.erase(nonce); }
  void owner_is_gone(const Nonce& nonce) { told_failed_.erase(nonce); }
  void nothing_is_left_behind();

  // Nothing keeps an owner from renewing its lease in this run: nobody may take over while it is at work.
  void leave_live_owners_alone() { live_owners_are_left_alone_ = true; }
  // Clocks differ in this run, but none jumps: an owner knows whether its lease has ended.
  void clocks_are_steady() { clocks_are_steady_ = true; }
  struct Moment {
    Time time{};               // by the store's clock
    std::uint64_t losses = 0;  // that gateways had been told of by then
  };
  Moment moment() const { return {.time = clock_->now(), .losses = told_lost_.size()}; }
  // `at`: when the first byte went out.
  void goes_to_backend(const OperationId& id, const Nonce& nonce, const Executor& process, const Moment& at);
  void back_from_backend(const Nonce& nonce) { at_backend_.erase(nonce); }

  // At the backend. The number is the execution's own and is in its answer.
  unsigned executed(const Asked& asked, const Nonce& nonce, std::uint64_t fence);
  // The gateway got a whole answer with this status.
  void backend_told(unsigned execution, int status);
  // Successes are only those that a backend committed, with their effect.
  void backends_commit() { backends_commit_ = true; }
  // It recorded that itself.
  void backend_failed(unsigned execution) { executions_[execution].recorded_failure = true; }
  void committed(const OperationId& id, const Record& record, unsigned execution);
  // How many bytes of its body the store has, or had at some time. A recorded response counts as all.
  std::size_t durable_of(unsigned execution) const;
  bool has_recorded(unsigned execution) const { return recorded_.contains(executions_[execution].nonce); }

  // Callers who stop a stream. What they ask may be done in the name of the owner from then on.
  void asks_stop(const OperationId& id) { asked_to_stop_.insert(id); }
  // At a gateway that answers the stop: the response was stopped, or had ended before. `asked_at`: when it was asked
  // to.
  void told_stop(const OperationId& id, Time asked_at, bool stopped);
  // What is left of an execution that was stopped.
  struct Stopped {
    std::optional<std::size_t> bytes;  // of its body; none: it was not kept
    bool handed = false;               // recorded under another claim than the one that was sent, from its beginning
  };
  std::optional<Stopped> stopped(unsigned execution) const;
  std::uint64_t stops() const { return stopped_.size(); }

  // A store that evicts: never what prevents a second execution, of the heaviest holders only. No new key is refused
  // while there is something to evict for it, unless its holder has three quarters of the store in what cannot be
  // evicted. `told` gives it back to the quota.
  void store_evicts(std::size_t most) { evicts_at_ = most; }
  void evicted(const Evicted& what, const std::function<void(const Evicted&)>& told);
  // What all gateways count as stored for a caller: at least what is stored, unless one has ended.
  void count_stored(std::function<std::size_t(const TenantTag&)> counted) { counted_ = std::move(counted); }
  void forgets_what_it_counted() { counted_ = nullptr; }
  void check_quotas();

  // Operators. What one is shown is as it is, and a list has all that there is.
  void shown(const KeyInfo& info);
  void listed(const std::vector<KeyInfo>& keys);
  // One decides on a key as it was seen. Everything that comes of it has the number that this returns.
  unsigned sets_out(const KeyInfo& seen);
  // About to go to the store, which must not change anything else than what was seen. Marks the operation.
  void sends(unsigned errand, Op& op);
  void told(unsigned errand, Effect effect);

  void answered(const Answer& answer);
  // The last answer that a client got when everything had become well again.
  void in_the_end(const Answer& answer, OnUnknown on_unknown);

  void violated(const std::string& what);
  const std::vector<std::string>& violations() const { return violations_; }
  std::uint64_t executions() const { return executions_.size(); }
  std::uint64_t replays() const { return replays_; }
  std::uint64_t chunks_read() const { return chunks_read_; }
  std::uint64_t operations_by_hand() const;

 private:
  // A key as it must be.
  struct Fact {
    enum class State : std::uint8_t { none, started, succeeded, failed, unknown };
    State state = State::none;
    Nonce nonce{};
    Fingerprint fingerprint{};
    Time claimed_at{};  // by the store's clock, as everything here
    Time lease_until{};
    Time expires_at{};
    Time charged_until{};                   // at least: the owner does not know the ttl of a stop at another gateway
    Duration remembered{};                  // after expires_at
    OutcomeBytes outcome{};                 // what a replay gives; null: it was not kept
    std::optional<unsigned> resolved_by{};  // an operator's errand
    bool aged = false;                    // the store keeps only a tombstone: a clock that is set back does not undo it
    bool in_chunks = false;               // its body, and the outcome is the head alone
    bool stopped = false;                 // by its caller, with the chunks that were there
    std::vector<OutcomeBytes> chunks{};   // of a response that streams, or has stayed in them
    OutcomeBytes perhaps_chunk{};         // the next one, if it was written although its append failed
    std::vector<OutcomeBytes> earlier{};  // of the same claim, before it expired and arrived once more

    void append(const OutcomeBytes& chunk);
    void drop_chunks();
    std::size_t body_bytes() const;
    std::size_t stored_bytes() const;
    bool has_chunks() const { return state == State::started || state == State::unknown || in_chunks; }
    Time forget_at() const { return saturating_add(expires_at, remembered); }
  };
  struct Version {
    Fact now;
    Fact before;  // what a release gives back
    Time at{};    // by the world's time
  };
  enum class End : std::uint8_t { open, ended, stopped };
  struct Key {
    Fact now;
    Fact before;
    std::vector<Fact> perhaps;  // writes that failed and may have been made
    Version safe;               // what no failover may lose
    std::vector<Version> since;
    Fence fence{};            // of the last claim
    TenantTag holder{};       // of the last claim
    std::string tenant{};     //
    unsigned effects = 0;     // committed since there was no record
    unsigned generation = 0;  // grows when what was recorded may be gone: forgotten, expired, lost in a failover
    std::vector<std::pair<Time, End>> ends{};  // since when each, by the world's time
  };
  struct Execution {
    Asked asked;
    Nonce nonce{};
    std::optional<int> told;
    bool committed = false;
    bool recorded_failure = false;
  };
  // What an operator does about a key.
  struct Errand {
    OperationId id{};
    Nonce nonce{};
    State seen{};
    Verb verb = Verb::forget;
    State final_state{};
    OutcomeBytes outcome{};
    bool done = false;  // the store did it
    bool lost = false;  // and a failover may have undone it
    std::optional<Effect> told{};
    Fingerprint fingerprint{};           // of the request whose key it was
    std::optional<unsigned> recorded{};  // in which generation its response was

    bool wants_the_same(const Errand& other) const {
      const bool same = id == other.id && nonce == other.nonce && seen == other.seen && verb == other.verb;
      return same && final_state == other.final_state && !outcome && !other.outcome;
    }
  };

  bool is_evictable(const Fact& fact) const;
  struct Holding {
    std::size_t bytes = 0;
    std::size_t pinned = 0;  // of those: cannot be evicted
    bool has_evictable = false;
  };
  std::map<TenantTag, Holding> holdings() const;
  static std::size_t at_most(std::size_t bytes);
  void check_share(const TenantTag& holder);
  void check_refused(const Op& op);
  void granted(Key& key, const Op& op);
  void check_gone(Key& key, const Op& op);
  void check_grant(const Key& key, const Op& op, bool live);
  void changed(Key& key);
  void wrote(Key& key, const Op& op);
  void operated(Key& key, const Op& op);
  void appended(Key& key, const Op& op);
  void append_failed(Key& key, const Op& op);
  void check_chunks(Key& key, const Op& op);
  void told_chunks(const Op& op);
  void is_durable(const Fact& held);
  void check_chunks_after_failover(const OperationId& id, const Fact& held);
  bool must_be_done(const Key& key, const Op& op) const;
  bool may_be(const Fact& fact, const Nonce& nonce, State state) const;
  bool is_live(const Fact& fact) const;
  bool has_expired(const Fact& fact) const;
  void shown_as_tombstone(Key& key) const;
  void check_replay(const Key& key, const Op& op);
  void is_recorded(Key& key);
  void is_stopped(const Fact& held);
  void ends_as(Key& key, End end);
  bool is_stop(const Op& op) const;
  // The claim that its execution was sent under.
  const Nonce& began_under(const Nonce& nonce) const;
  void check_resolved(const Answer& answer, unsigned errand);
  void never_told_otherwise(const Answer& answer, unsigned generation);
  void told_loss(const Op& op, const Executor& process);
  Fact after_claim(const Op& op) const;
  Fact after_write(const Key& key, const Op& op) const;
  bool is_as(const Fact& fact, const std::optional<Record>& record) const;
  std::string name(const OperationId& id) const;
  static std::string to_text(const Fact& fact);
  static Fact::State state_of(State state);
  bool gives(const Fact& fact, const Record& record) const;
  static unsigned errand_of(const Op& op);

  World& world_;
  const Clock* clock_ = nullptr;
  std::map<OperationId, Key> keys_;
  std::vector<Execution> executions_;
  std::set<Nonce> executed_nonces_;
  std::set<Nonce> at_backend_;                                        // owners that wait for it
  std::map<std::pair<OperationId, const Executor*>, Nonce> sent_by_;  // the last that each process sent
  // Claims whose owner has heard that they are not its own any more, and how many had by then.
  std::map<Nonce, std::uint64_t> told_lost_;
  // Claims that each process was given since it last sent something.
  std::map<std::pair<OperationId, const Executor*>, std::vector<Nonce>> given_to_;
  // Executions whose process has heard that the store knows nothing of them any more, and how many claims of the key
  // were given since.
  std::map<std::pair<OperationId, const Executor*>, unsigned> lost_by_store_;
  std::map<Nonce, Nonce> handed_to_;  // claims that a process was given, and what it sends or had sent under another
  bool live_owners_are_left_alone_ = false;
  bool clocks_are_steady_ = false;
  std::map<Nonce, unsigned> recorded_;  // outcomes that the store said it has, with their generation
  std::map<std::pair<OperationId, unsigned>, std::string> told_;  // by generation
  std::map<Nonce, std::size_t> told_chunks_;                      // how many of each claim somebody relies on
  std::map<Nonce, std::size_t> durable_;  // bytes of bodies in chunks, by the claim that was sent
  std::set<OperationId> asked_to_stop_;
  std::map<Nonce, Stopped> stopped_;  // by the claim that was sent
  std::vector<Errand> errands_;
  std::set<Nonce> made_;  // claims that were given
  std::set<Nonce> told_failed_;
  std::optional<Duration> lag_;
  bool only_acknowledged_counts_ = false;
  std::string left_out_route_;
  std::set<OperationId> left_out_;
  bool backends_commit_ = false;
  std::size_t evicts_at_ = 0;  // bytes of a store that evicts; 0: it does not
  std::function<std::size_t(const TenantTag&)> counted_;
  std::vector<std::string> violations_;
  std::uint64_t replays_ = 0;
  std::uint64_t chunks_read_ = 0;
  Time latest_ = Time::min();
};

}  // namespace once::sim
