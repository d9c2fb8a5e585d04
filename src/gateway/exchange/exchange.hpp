// The life of a keyed request: claim, forward, record, reply. Every decision in it is a value from core/; this is the
// order in which things happen, and the order is the promise: the claim is durable before the first byte goes to the
// backend, and the outcome is durable before the first byte goes to the client.
//
// It ends by filling in a Reply and knows nothing of the client's connection: a client that goes away changes nothing.
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

// Writes a reply that begins before its exchange has ended: a response that is recorded as it streams.
class ReplyStart {
 public:
  // The reply is filled in, and its source gives the body. Returns at once.
  virtual void begin_reply() = 0;

 protected:
  ~ReplyStart() = default;
};

// A request with a valid key, whole. Views live until the exchange ends.
struct KeyedRequest {
  const Policy& policy;
  Backend& backend;
  RouteMetrics& counts;
  const http::RequestHead& head;
  std::string_view body;
  OperationId id;
  Fingerprint fingerprint;
  std::string_view request_id;
  std::string_view tenant = {};  // for operators: see Op
  std::string_view route = {};
  TenantTag holder = {};      // see Op
  KeyQuota* quota = nullptr;  // who pays for what the store keeps of it; null: nobody
  InterimSink* interim = nullptr;
  std::string_view strip_prefix = {};  // of the path, before it goes to the backend
  const Origin* origin = nullptr;
  Presence* presence = nullptr;                    // of its client, while it waits; null: taken to be there
  std::optional<OperationId> life = std::nullopt;  // the marker of the resource that the key dies with
  UpstreamUse* use = nullptr;
  ReplyStart* streams = nullptr;     // null: its response is held back until it is whole
  bool writes_resource = false;      // ends with its whole response: only one that is too large is told before that
  BodySource* large_body = nullptr;  // instead of `body`, unless it is null
  BodyKeeper* keeper = nullptr;      // of the body, which may be sent for longer than the exchange takes
};

class Exchange {
 public:
  explicit Exchange(const ExchangePorts& ports);

  const ExchangePorts& ports() const { return ports_; }

  // One at a time; an Exchange is reused so that its scratch space is.
  Task<void> run(const KeyedRequest& request, Reply& reply);
  // What is recorded for the request's id, without claiming or executing anything.
  Task<void> look_up(const KeyedRequest& request, Reply& reply);
  // Ends a response that is streaming, where it is.
  Task<void> stop(const KeyedRequest& request, Reply& reply);
  // Whether it is certainly another request than the one whose response is recorded, by what its head says of the body
  // that is still to come. Fills in the reply only then.
  Task<bool> mismatches_unread(const KeyedRequest& request, Reply& reply);
  // Gives that space back.
  void release_memory();

 private:
  void begin(const KeyedRequest& request, Reply& reply);
  void end();
  Task<void> read_record();
  Task<bool> reply_looked_up();
  Task<void> reply_without_record();
  void answer_unknown_key();
  Task<bool> stop_found();
  Task<bool> finish_stopped(OutcomeBytes outcome);
  void reply_stopped(bool stopped);
  Task<void> claim();
  Task<bool> start();
  Task<bool> go_without_claim();
  Task<bool> answer_at_work(Executions::Entered entered);
  // The reply is filled in, or it is worth claiming again.
  enum class Waited : std::uint8_t { answered, owner_ended };
  Task<Waited> wait_for_owner();
  void answer_at_work_unseen();
  Task<void> execute();
  // A response that cannot be read is counted and logged: its client only learns that the outcome is not known.
  void note_fault(const BackendAnswer& answer);
  Settlement settlement_of(const BackendAnswer& answer) const;
  Task<void> settle_answer(BackendAnswer& answer);
  // Whether a response is recorded as it streams, and read by others meanwhile.
  bool may_stream() const {
    return ports_.streams != nullptr && request_->streams != nullptr && !request_->writes_resource;
  }
  // Whether the answer is told while its claim stays open: it is recorded as it streams, or when it came whole.
  bool tells_before_end(const BackendAnswer& answer) const;
  Task<void> record_stream(BackendAnswer& answer, Duration sent_at);
  struct Streamed;
  Task<void> relay_bypassed(BackendAnswer& answer, Duration sent_at, Nonce asked);
  void tell_stream(const Streamed& streamed, Duration sent_at, Ending ending);
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
    yes,         // the reply gives the stream of the operation
    no,          // it has none, or none any more
    too_late,    // it has one whose beginning is gone
    settled,     // its outcome is recorded by now
    unreadable,  // the store did not say
  };
  Task<Attached> attach(Ending ending);
  Ending ending_of(const Op& read, Ending seen) const;
  void answer_unattached(Attached attached);
  bool has_part_of_this() const;
  Task<std::uint64_t> find_resume(const StoredResponse& head, const Nonce& nonce);
  bool may_read(const Fingerprint& of) const;
  std::uint64_t resumed_at(const StoredResponse& head, std::string_view body) const;
  void tell_offset(std::uint64_t offset);
  void answer_released(BackendAnswer& answer, OpStatus undone);
  Task<OpStatus> record(State state, BodyKept kept, OutcomeBytes outcome);
  Task<void> end_claim();
  void end_later(OutcomeBytes kept_alive);
  Task<OpStatus> release();
  Task<bool> reply_as_committed();
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
  OutcomeBytes recorded_to_tell(Ending ending);
  void reply_recorded(Ending ending);
  Task<void> reply_in_chunks(Ending ending);
  enum class Part : std::uint8_t { all_that_was_sent, less, unreadable };
  Task<Part> stopped_part(const Nonce& nonce);
  // As its body is kept.
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
  ClaimResult claimed_;  // what is known of the claim at hand
  Attempt attempt_{};
  std::optional<ClaimEnd> settled_;
  OwnerWait owner_;
  std::string label_;            // of the claim: route and request, for people
  std::string for_backend_;      // fields that Once adds to the request
  std::string stored_fields_;    // of the response, part of the outcome
  std::string unstored_fields_;  // of the response, for this client alone
  BackendPolicy said_;           // by the backend, of its response
  OutcomeBytes told_;            // the response as its client gets it; what is recorded may be dropped by then
};

}  // namespace once::gateway
