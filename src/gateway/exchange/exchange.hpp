// The life of a keyed request: claim, forward, record, reply. Every decision is a value from core/. The order of the
// steps is the guarantee: the claim is durable before the first byte goes to the backend, and the outcome is durable
// before the first byte goes to the client. Exceptions: requests that are forwarded while the store is down
// (exchange_bypass.cpp), and responses that stream (exchange_stream.cpp).
//
// It fills in a Reply and does not see the client's connection: a disconnect does not cancel an execution.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/task.hpp"
#include "core/backend_policy.hpp"
#include "core/policy.hpp"
#include "gateway/connection/reply.hpp"
#include "gateway/exchange/answers.hpp"
#include "gateway/exchange/backend.hpp"
#include "gateway/exchange/exchange_claimant.hpp"
#include "gateway/exchange/exchange_ports.hpp"
#include "gateway/exchange/lease_keeper.hpp"
#include "gateway/stream/stream_reader.hpp"
#include "gateway/stream/stream_recorder.hpp"
#include "store/owner_wait.hpp"

namespace once::gateway {

// Starts writing a reply before its exchange has ended, for a response that is recorded as it streams.
class ReplyStart {
 public:
  // The reply is filled in; its source provides the body. Returns at once.
  virtual void begin_reply() = 0;

 protected:
  ~ReplyStart() = default;
};

// A complete request with a valid key. Its views live until the exchange ends.
struct KeyedRequest {
  const Policy& policy;
  Backend& backend;
  RouteMetrics& counts;
  const http::RequestHead& head;
  std::string_view body;
  OperationId id;
  Fingerprint fingerprint;
  std::string_view request_id;
  std::string_view tenant = {};  // shown to operators, see Op
  std::string_view route = {};
  TenantTag holder = {};      // see Op
  KeyQuota* quota = nullptr;  // the quota that stored bytes are charged to; null: none
  InterimSink* interim = nullptr;
  std::string_view strip_prefix = {};  // of the path, before it goes to the backend
  const Origin* origin = nullptr;
  Presence* presence = nullptr;                    // of its client, while it waits; null: assumed present
  std::optional<OperationId> life = std::nullopt;  // the marker of the resource whose life the key belongs to
  UpstreamUse* use = nullptr;
  ReplyStart* streams = nullptr;     // null: the response is held back until it is whole
  bool writes_resource = false;      // the response is held back until it is whole, unless it is too large for that
  BodySource* large_body = nullptr;  // instead of `body`, unless it is null
  BodyKeeper* keeper = nullptr;      // of the body, whose upload may outlast the exchange
};

// What the head of a request shows about the recorded one, before its body is read.
enum class HeadMatch : std::uint8_t { possible, mismatch };

class Exchange {
 public:
  explicit Exchange(const ExchangePorts& ports);

  const ExchangePorts& ports() const { return ports_; }

  // Executes the request or replays its outcome. One call at a time; an Exchange is reused to keep its buffers.
  Task<void> run(const KeyedRequest& request, Reply& reply);
  // Replies with the recorded outcome of the request's id. Claims and executes nothing.
  Task<void> look_up(const KeyedRequest& request, Reply& reply);
  // Stops the streaming response of the request's id; what is recorded stays.
  Task<void> stop(const KeyedRequest& request, Reply& reply);
  // Compares the head of a request, before its body is read, with the recorded one. Fills in the reply for a mismatch
  // only.
  Task<HeadMatch> compare_unread(const KeyedRequest& request, Reply& reply);
  // Frees the buffers.
  void release_memory();

 private:
  void begin(const KeyedRequest& request, Reply& reply);
  void end();
  Task<void> read_record();
  enum class Step : std::uint8_t {
    answered,  // the reply is filled in
    again,     // the record has changed since it was read: claim or read it again
  };
  Task<Step> reply_looked_up();
  Task<void> reply_without_record();
  void answer_unknown_key();
  Task<Step> stop_found();
  Task<Step> finish_stopped(OutcomeBytes outcome);
  void reply_stopped(bool stopped);
  Task<void> claim();
  Task<Step> start();
  Task<Step> go_without_claim();
  Task<Step> answer_at_work(Executions::Entered entered);
  Task<Step> wait_for_owner();
  void answer_at_work_unseen();
  Task<void> execute();
  // Counts and logs a response that cannot be parsed, because the client only sees that the outcome is unknown.
  void note_fault(const BackendAnswer& answer);
  Settlement settlement_of(const BackendAnswer& answer) const;
  Task<void> settle_answer(BackendAnswer& answer);
  Task<void> settle_released(BackendAnswer& answer);
  Task<void> settle_recorded(BackendAnswer& answer, Settlement settlement, OutcomeBytes outcome);
  Task<void> settle_unknown(BackendAnswer& answer);
  // Whether the response may be recorded as it streams, and other requests may attach to it.
  bool may_stream() const {
    return ports_.streams != nullptr && request_->streams != nullptr && !request_->writes_resource;
  }
  // Whether the reply starts before the claim ends: the response is recorded as it streams, or is too large to be held
  // back and is relayed.
  bool replies_before_end(const BackendAnswer& answer) const;
  Task<void> record_stream(BackendAnswer& answer, Duration sent_at);
  struct Streamed;
  Task<void> relay_bypassed(BackendAnswer& answer, Duration sent_at, Nonce asked);
  void start_stream_reply(const Streamed& streamed, Duration sent_at, Ending ending);
  Task<void> answer_unbegun(const Streamed& streamed);
  Task<void> settle_stream(StreamEnd end, const Streamed& streamed);
  Task<void> settle_whole_stream(StreamEnd end, const Streamed& streamed);
  Task<void> settle_unkept_stream(const Streamed& streamed);
  bool came_whole(StreamEnd end, const Streamed& streamed) const;
  Task<void> settle_lost_stream(const Streamed& streamed);
  void end_as_recorded(const Streamed& streamed);
  void cut(const Streamed& streamed);
  bool is_provably_whole(const BackendAnswer& answer) const;
  StreamLimits stream_limits(const BackendAnswer& answer) const;
  StreamRecorderPorts recorder_ports();
  StreamReaderPorts reader_ports(std::string_view content_type) const;
  void reply_with_stream(const OutcomeBytes& head, http::ResponseSourcePtr body, Ending ending);
  enum class Attached : std::uint8_t {
    yes,         // the reply reads the stream of the operation
    no,          // the operation has no stream, or no longer
    too_late,    // its stream no longer has its beginning
    settled,     // the operation has ended with a recorded outcome
    unreadable,  // the store did not answer
  };
  Task<Attached> attach(Ending ending);
  Ending ending_of(const Op& read, Ending seen) const;
  void answer_unattached(Attached attached);
  bool has_part_of_this() const;
  Task<std::uint64_t> find_resume(const StoredResponse& head, const Nonce& nonce);
  bool may_read(const Fingerprint& of) const;
  std::uint64_t resumed_at(const StoredResponse& head, std::string_view body) const;
  void add_offset_field(std::uint64_t offset);
  void answer_released(BackendAnswer& answer, OpStatus undone);
  Task<OpStatus> record(State state, BodyKept kept, OutcomeBytes outcome);
  Task<void> end_claim();
  void end_later(OutcomeBytes kept_alive);
  Task<OpStatus> release();
  Task<Committed> reply_as_committed();
  Task<void> bypass(Nonce asked);
  void end_bypassed(const Settlement& settlement, OutcomeBytes outcome, const Nonce& asked);
  void reply_bypassed(BackendAnswer& answer);
  Task<void> leave_work();

  void log_refusal() const;
  void log_unknown() const;
  void count(ClaimEnd settled) {
    request_->counts.outcomes[static_cast<std::size_t>(settled)].add();
    settled_ = settled;
  }
  void write_fields_for_backend();
  BackendRequest to_backend(const SendPermit* permit) const;
  Duration ttl_of(State state) const;
  void split_response_fields(const http::ResponseHead& head);
  OutcomeBytes encode_answer(const BackendAnswer& answer) const;
  OutcomeBytes counted(const OutcomeBytes& outcome);
  void reply_with(BackendAnswer& answer, Ending ending);
  OutcomeBytes recorded_for_reply(Ending ending);
  void reply_recorded(Ending ending);
  Task<void> reply_in_chunks(Ending ending);
  enum class Part : std::uint8_t { all_that_was_sent, less, unreadable };
  Task<Part> stopped_part(const Nonce& nonce);
  // Replies with the recorded outcome: from the record, or from its chunks.
  Task<void> reply_as_recorded(Ending ending);
  void cannot_read_record();
  void answer_unsent(Delivery delivery, Ending ending);
  Answers answers();

  ExchangePorts ports_;
  ExchangeClaimant claimant_;
  const bool shared_;
  const KeyedRequest* request_ = nullptr;
  Reply* reply_ = nullptr;
  Op op_;
  Executions::Entry work_;
  LeaseKeeper lease_;
  ClaimResult claimed_;  // the state of the current claim
  Attempt attempt_{};
  std::optional<ClaimEnd> settled_;
  OwnerWait owner_;
  std::string label_;             // route and request of the claim, for operators
  Fields for_backend_;            // added to the request
  Fields stored_fields_;          // of the response, part of the outcome
  Fields unstored_fields_;        // of the response, for this client only
  BackendPolicy backend_policy_;  // from the Idempotency-Policy field of the response
  OutcomeBytes reply_outcome_;    // the encoded response for the reply
};

}  // namespace once::gateway
