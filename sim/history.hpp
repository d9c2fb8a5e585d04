// Checks what happened at the store and at the backend against what may happen. The model shares no decisions with the
// store or the gateway: it is a second implementation of the promises in docs/reference/guarantees.md.
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

// A request: one key of one caller, with its content.
struct Asked {
  unsigned operation = 0;
  unsigned caller = 0;
  unsigned content = 0;  // 0: the original request; others: the key is reused for another request

  auto operator<=>(const Asked&) const = default;
};

// All callers send the same body: only a header identifies the caller.
std::string body_of(const Asked& asked);
std::optional<Asked> parse_request(std::string_view authorization, std::string_view body);

// Appended to a body that a backend committed together with its effect.
inline constexpr std::string_view committed_mark = " committed";

// The body of the response that an operator sets for a key.
std::string resolved_body(unsigned decision);

inline std::string short_hex(const Nonce& nonce) {
  return to_hex(nonce).substr(0, 8);
}

// Statuses by which a backend says that it has done nothing.
inline bool is_refusal(int status) {
  return status == 408 || status == 425 || status == 429;
}

// The answer that a client received.
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

  // The store acted on an op, in this order. `op` has its answer; a journal that failed halfway may have written
  // anyway.
  void store_acted(const Op& op);
  // Requests of this route do not wait for the records of their keys, so the model ignores these keys.
  void leave_out(std::string_view route) { left_out_route_ = route; }
  void asks(const Op& op);
  bool leaves_out(const OperationId& id) const { return left_out_.contains(id); }
  // Like store_acted(), for an op that changed nothing and was answered at once.
  void store_answered_at_once(const Op& op);
  // The process with an unshared store has ended: its claims have no owner any more.
  void owner_ended();
  // The record of every id after a restart: it must be what was acknowledged, or what may have been written. It is
  // given as it was written: a tombstone could match any version.
  void found_after_restart(const OperationId& id, const std::optional<Record>& record);
  std::vector<OperationId> ids() const;
  // The store's clock. The model reads it directly, not through the store.
  void set_store_clock(const Clock& clock) { clock_ = &clock; }
  // For servers with replicas: writes of the last `lag` may be lost in a failover.
  void replicas_lag(Duration lag) { lag_ = lag; }
  // For servers that wait for their replicas: a write counts once it is acknowledged, and then must not be lost.
  void replicas_are_waited_for() { only_acknowledged_counts_ = true; }
  // The server has returned the current state of the key as durable.
  void acknowledged(const OperationId& id);
  // The replica's state when it takes over.
  void failed_over(const OperationId& id, const std::optional<Record>& record, const std::vector<OutcomeBytes>& chunks);
  // The server has lost all data; that is allowed.
  void store_emptied();
  // The store's clock has reached `now`: records that expire by then may be deleted, even if the clock is set back
  // later.
  void store_clock_at(Time now) { latest_ = std::max(latest_, now); }

  // A gateway received the result of an op. A claim that failed may have been made, so a gateway that lives releases
  // it. A process never starts an operation that it is already executing: that execution continues under the claim
  // that another request of the process was given.
  void gateway_received(const Op& op, const Executor& process);
  void takes_back(const Nonce& nonce) { failed_received_.erase(nonce); }
  void owner_is_gone(const Nonce& nonce) { failed_received_.erase(nonce); }
  void check_claims_released();

  // No fault prevents owners from renewing in this run, so no running owner may be taken over.
  void leave_live_owners_alone() { live_owners_are_left_alone_ = true; }
  bool leaves_live_owners_alone() const { return live_owners_are_left_alone_; }
  // Clocks differ in this run but do not jump: an owner knows whether its lease has ended.
  void clocks_are_steady() { clocks_are_steady_ = true; }
  struct Moment {
    Time time{};               // by the store's clock
    std::uint64_t losses = 0;  // claims lost so far, as answered to gateways
  };
  Moment moment() const { return {.time = clock_->now(), .losses = lost_received_.size()}; }
  // A request goes to the backend; `at` is when its first byte was sent.
  void goes_to_backend(const OperationId& id, const Nonce& nonce, const Executor& process, const Moment& at);
  void back_from_backend(const Nonce& nonce) { at_backend_.erase(nonce); }
  // The holder of a claim begins its work. Unlike with a request, the process may claim the work again while it lives.
  void works(const Nonce& nonce) { at_backend_.insert(nonce); }

  // The backend executed a request. Returns the execution's number, which its response contains.
  unsigned executed(const Asked& asked, const Nonce& nonce, std::uint64_t fence);
  // The gateway received a whole response with this status.
  void response_received(unsigned execution, int status);
  // Only outcomes that a backend committed together with its effect count as successes.
  void backends_commit() { backends_commit_ = true; }
  // The backend recorded the failure itself.
  void backend_failed(unsigned execution) { executions_[execution].recorded_failure = true; }
  void committed(const OperationId& id, const Record& record, unsigned execution);
  // The bytes of the execution's body that the store has, or had at some time. If the response is recorded, that is the
  // whole body.
  std::size_t durable_of(unsigned execution) const;
  bool has_recorded(unsigned execution) const { return recorded_.contains(executions_[execution].nonce); }

  // A caller stops a stream: from now on the record may be finished in the owner's name.
  void stop_requested(const OperationId& id) { asked_to_stop_.insert(id); }
  // A gateway answered a stop: the response was stopped, or had ended before. `asked_at` is the time of the request.
  void stop_answered(const OperationId& id, Time asked_at, bool stopped);
  // What was recorded of an execution that was stopped.
  struct Stopped {
    std::optional<std::size_t> bytes;  // of its body; nullopt: it was not kept
    bool handed = false;               // recorded under another claim than the one that was sent
  };
  std::optional<Stopped> stopped(unsigned execution) const;
  std::uint64_t stops() const { return stopped_.size(); }

  // For a store that evicts. It evicts only records that do not prevent a second execution, and only those of the
  // heaviest holders. It refuses a new key only if nothing can be evicted for it, or if records that cannot be evicted
  // and belong to the key's holder fill three quarters of it. `notify` returns the bytes to the quota.
  void store_evicts(std::size_t most) { evicts_at_ = most; }
  void evicted(const Evicted& what, const std::function<void(const Evicted&)>& notify);
  // What all gateways together count as stored for a caller: at least what is stored, unless a gateway has ended.
  void count_stored(std::function<std::size_t(const TenantTag&)> counted) { counted_ = std::move(counted); }
  void stop_counting() { counted_ = nullptr; }
  void check_quotas();

  // Checks what operators see: a key must be shown as it is, and a list must be complete.
  void shown(const KeyInfo& info);
  void listed(const std::vector<KeyInfo>& keys);
  // An operator decides on a key as it was seen. Returns the number of the decision.
  unsigned operator_decides(const KeyInfo& seen);
  // The op is about to be sent to the store, and must only change what was seen. Marks the operation.
  void sends(unsigned decision, Op& op);
  void operator_received(unsigned decision, Effect effect);

  void answered(const Answer& answer);
  // The last answer that a client got after all faults had ended.
  void check_final_answer(const Answer& answer, OnUnknown on_unknown);

  void violated(const std::string& what);
  const std::vector<std::string>& violations() const { return violations_; }
  std::uint64_t executions() const { return executions_.size(); }
  std::uint64_t replays() const { return replays_; }
  std::uint64_t chunks_read() const { return chunks_read_; }
  std::uint64_t operations_by_hand() const;

 private:
  // The state that a key must have.
  struct Fact {
    enum class State : std::uint8_t { none, started, succeeded, failed, unknown };
    State state = State::none;
    Nonce nonce{};
    Fingerprint fingerprint{};
    Time claimed_at{};  // by the store's clock, like all times here
    Time lease_until{};
    Time expires_at{};
    Time charged_until{};                   // at least; the owner does not know the ttl of a stop at another gateway
    Duration remembered{};                  // after expires_at
    OutcomeBytes outcome{};                 // what a replay returns; null: it was not kept
    std::optional<unsigned> resolved_by{};  // the number of an operator's decision
    bool leased = false;                    // the owner is not the process that has the store, and may outlive it
    bool lapsed = false;                    // the lease had ended before that process did
    Time perhaps_live_until{};              // its restart may have extended the lease all the same
    bool aged = false;       // the store has only a tombstone left: setting the clock back does not undo that
    bool in_chunks = false;  // its body; the outcome is only the head
    bool stopped = false;    // by its caller, with the chunks that existed
    std::vector<OutcomeBytes> chunks{};   // of a response that streams, or has stayed in chunks
    OutcomeBytes perhaps_chunk{};         // the next one, if it may have been written although its append failed
    std::vector<OutcomeBytes> earlier{};  // of the same claim, before it expired and arrived again

    void append(const OutcomeBytes& chunk);
    void drop_chunks();
    std::size_t body_bytes() const;
    std::size_t stored_bytes() const;
    bool has_chunks() const { return state == State::started || state == State::unknown || in_chunks; }
    Time forget_at() const { return saturating_add(expires_at, remembered); }
  };
  struct Version {
    Fact now;
    Fact before;  // what a release restores
    Time at{};    // by the simulation's time
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
    std::string tenant{};     // of the last claim
    unsigned effects = 0;     // committed since there was no record
    unsigned generation = 0;  // increases when a recorded outcome may be gone: forgotten, expired, lost in a failover
    std::vector<std::pair<Time, End>> ends{};  // with the time of each, by the simulation's time
  };
  struct Execution {
    Asked asked;
    Nonce nonce{};
    std::optional<int> received;
    bool committed = false;
    bool recorded_failure = false;
  };
  // An operator's decision on a key.
  struct OperatorDecision {
    OperationId id{};
    Nonce nonce{};
    State seen{};
    Verb verb = Verb::forget;
    State final_state{};
    OutcomeBytes outcome{};
    bool done = false;  // the store did it
    bool lost = false;  // a failover may have undone it
    std::optional<Effect> received{};
    Fingerprint fingerprint{};           // of the key's request
    std::optional<unsigned> recorded{};  // the generation in which its response was recorded

    bool asks_the_same(const OperatorDecision& other) const {
      const bool same = id == other.id && nonce == other.nonce && seen == other.seen && verb == other.verb;
      return same && final_state == other.final_state && !outcome && !other.outcome;
    }
  };

  bool is_evictable(const Fact& fact) const;
  struct Holding {
    std::size_t bytes = 0;
    std::size_t pinned = 0;  // bytes that cannot be evicted
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
  void chunks_acknowledged(const Op& op);
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
  // The claim under which its execution was sent.
  const Nonce& began_under(const Nonce& nonce) const;
  void check_resolved(const Answer& answer, unsigned decision);
  void check_same_answer(const Answer& answer, unsigned generation);
  void loss_received(const Op& op, const Executor& process);
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
  std::set<Nonce> at_backend_;                                        // claims of requests at the backend
  std::map<std::pair<OperationId, const Executor*>, Nonce> sent_by_;  // the last one that each process sent
  // Claims whose owner was answered that they are lost, with the number of losses by then.
  std::map<Nonce, std::uint64_t> lost_received_;
  // Claims that each process was given since it last sent a request.
  std::map<std::pair<OperationId, const Executor*>, std::vector<Nonce>> given_to_;
  // Executions whose process was answered that the store has no record of them, with the number of claims of the key
  // given since.
  std::map<std::pair<OperationId, const Executor*>, unsigned> lost_by_store_;
  std::map<Nonce, Nonce> handed_to_;  // a claim that a process was given, and the claim under which it sent the request
  bool live_owners_are_left_alone_ = false;
  bool clocks_are_steady_ = false;
  bool owners_end_with_store_ = false;  // unless they have a lease
  std::map<Nonce, unsigned> recorded_;  // outcomes acknowledged by the store, with their generation
  std::map<std::pair<OperationId, unsigned>, std::string> first_answers_;  // by generation
  std::map<Nonce, std::size_t> acknowledged_chunks_;                       // acknowledged chunks of each claim
  std::map<Nonce, std::size_t> durable_;  // bytes of bodies in chunks, by the claim that was sent
  std::set<OperationId> asked_to_stop_;
  std::map<Nonce, Stopped> stopped_;  // by the claim that was sent
  std::vector<OperatorDecision> decisions_;
  std::set<Nonce> made_;  // granted claims
  std::set<Nonce> failed_received_;
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
