// Responses that are recorded as they stream, and requests that attach to one.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "base/bytes.hpp"
#include "base/sometimes.hpp"
#include "base/text.hpp"
#include "core/event_stream.hpp"
#include "core/headers.hpp"
#include "core/outcome.hpp"
#include "gateway/exchange/exchange.hpp"
#include "gateway/stream/stream_reader.hpp"

namespace once::gateway {

namespace {

constexpr Settlement unknown_settlement{.kind = Settlement::Kind::unknown};

// The recorded response: the head, and all that followed it.
OutcomeBytes joined(const std::vector<OutcomeBytes>& chunks) {
  auto response = decode(*chunks.front());
  std::string body;
  std::size_t size = 0;
  for (std::size_t i = 1; i < chunks.size(); ++i) size += chunks[i]->size();
  body.reserve(size);
  for (std::size_t i = 1; i < chunks.size(); ++i) body.append(*chunks[i]);
  response->body = body;
  return std::make_shared<const std::string>(encode(*response));
}

// The recorded head of a response whose body stays in chunks.
OutcomeBytes without_body(const OutcomeBytes& head, std::uint64_t length) {
  auto response = decode(*head);
  response->in_chunks = BodyInChunks{.length = length};
  return std::make_shared<const std::string>(encode(*response));
}

// `fields` are "Name: value" lines.
std::string_view content_type_of(std::string_view fields) {
  constexpr std::string_view name = "Content-Type:";
  while (!fields.empty()) {
    const std::size_t end = std::min(fields.find("\r\n"), fields.size());
    const std::string_view line = fields.substr(0, end);
    if (same_name(line.substr(0, name.size()), name)) return trim(line.substr(name.size()));
    fields.remove_prefix(std::min(end + 2, fields.size()));
  }
  return {};
}

// The offset after the last event that the client has seen; 0 if it is not found.
std::uint64_t offset_to_resume(std::string_view last_event_id, std::string_view body) {
  return last_event_id.empty() ? 0 : offset_after_event(body, last_event_id).value_or(0);
}

}  // namespace

// A response that is sent to its client while the exchange still runs.
struct Exchange::Streamed {
  const BackendAnswer& answer;
  const OutcomeBytes& head;
  const std::shared_ptr<LiveStream>& live;
  const StreamRecorder& recorder;
  const Settlement settlement;  // if it comes whole
};

// Until the rest has arrived the backend is executing the operation, so the claim stays open.
bool Exchange::replies_before_end(const BackendAnswer& answer) const {
  if (answer.delivery == Delivery::streaming) return true;
  return answer.delivery == Delivery::oversize && ports_.streams != nullptr && request_->streams != nullptr;
}

StreamLimits Exchange::stream_limits(const BackendAnswer& answer) const {
  const RecordPolicy& policy = request_->policy.record;
  const StreamedHead head{.status = answer.head->status,
                          .content_type = answer.head->find("Content-Type").value_or(""),
                          .backend = backend_policy_};
  return {.max_stream = is_recorded_as_it_streams(head, policy) ? policy.max_stream : policy.max_body,
          .silence = request_->policy.timeouts.stream_idle,
          .abandon_after = policy.abandon_after,
          .lease = request_->policy.lease};
}

StreamRecorderPorts Exchange::recorder_ports() {
  const std::size_t unlimited = std::numeric_limits<std::size_t>::max();
  return {.claimant = claimant_,
          .home = ports_.home,
          .clock = ports_.clock,
          .metrics = ports_.metrics,
          .lease = shared_ ? &lease_ : nullptr,
          .most_memory = ports_.memory != nullptr ? ports_.memory->most_for_response() : unlimited,
          .readers = ports_.streams->readers()};
}

// The presence is watched only for event streams: a half-closed client may still read any other response.
StreamReaderPorts Exchange::reader_ports(std::string_view content_type) const {
  return {.store = ports_.store,
          .waiters = ports_.waiters,
          .readers = ports_.streams->readers(),
          .home = ports_.home,
          .presence = is_stream_type(content_type) ? request_->presence : nullptr,
          .memory = ports_.memory};
}

// The claim was granted and the backend has begun to answer. Head and chunks are durable before they are sent to the
// client, and the end is sent once the outcome is recorded. A response that is too large is recorded only at its end.
Task<void> Exchange::record_stream(BackendAnswer& answer, Duration sent_at) {
  backend_policy_ = {};
  split_response_fields(*answer.head);
  const OutcomeBytes head = encode_answer(answer);
  StreamLabels labels{
      .tenant = std::string(op_.tenant), .route = std::string(request_->route), .since = ports_.clock.now()};
  const StreamOrigin origin{
      .id = op_.id, .nonce = op_.nonce, .attempt = attempt_, .fingerprint = request_->fingerprint};
  const std::shared_ptr<LiveStream> live = ports_.streams->make(origin, std::move(labels));
  StreamRecorder recorder(recorder_ports(), op_, work_, *live, stream_limits(answer));
  const Streamed streamed{
      .answer = answer, .head = head, .live = live, .recorder = recorder, .settlement = settlement_of(answer)};
  const bool is_recorded = answer.delivery == Delivery::streaming;
  Recorded begun = Recorded::yes;
  if (is_recorded) {
    ports_.metrics.streams_begun.add();
    begun = co_await recorder.begin(head);
  } else {
    recorder.begin_unrecorded(head, answer.body);
  }
  if (begun == Recorded::no) {
    sometimes<"stream: head not recorded">();
    co_await lease_.stop();
    co_await answer_unbegun(streamed);
    co_return;
  }
  if (is_recorded) ports_.streams->list(live);
  const bool unknown = streamed.settlement.kind == Settlement::Kind::unknown;
  start_stream_reply(streamed, sent_at, unknown ? Ending::unknown : Ending::executed);
  StreamEnd end = StreamEnd::oversize;
  if (is_recorded) end = co_await recorder.record(*answer.source, answer.body);
  sometimes<"stream: goes past its record">(is_recorded && end == StreamEnd::oversize);
  if (end == StreamEnd::oversize) end = co_await recorder.relay(*answer.source);
  sometimes<"stream: abandoned">(end == StreamEnd::abandoned);
  sometimes<"stream: claim lost">(end == StreamEnd::lost);
  sometimes<"stream: chunk not recorded">(end == StreamEnd::unrecorded);
  sometimes<"stream: silent for too long">(end == StreamEnd::timed_out);
  sometimes<"stream: broken off by the backend">(end == StreamEnd::broken);
  co_await lease_.stop();
  op_.nonce = recorder.nonce();
  co_await settle_stream(end, streamed);
  ports_.streams->remove(*live);
  ports_.streams->readers().notify(live->id());
}

// A response without a claim that is too large to be held back. This process keeps the operation in its list of
// executions until the response has ended. Its end decides what is recorded.
Task<void> Exchange::relay_bypassed(BackendAnswer& answer, Duration sent_at, Nonce asked) {
  backend_policy_ = {};
  split_response_fields(*answer.head);
  const OutcomeBytes head = encode_answer(answer);
  const StreamOrigin origin{.id = op_.id, .fingerprint = request_->fingerprint};
  const std::shared_ptr<LiveStream> live = ports_.streams->make(origin);
  StreamRecorderPorts ports = recorder_ports();
  ports.lease = nullptr;
  StreamRecorder recorder(ports, op_, work_, *live, stream_limits(answer));
  const Streamed streamed{
      .answer = answer, .head = head, .live = live, .recorder = recorder, .settlement = settlement_of(answer)};
  recorder.begin_unrecorded(head, answer.body);
  op_.record.reset();
  start_stream_reply(streamed, sent_at, Ending::bypassed);
  const StreamEnd end = co_await recorder.relay(*answer.source);
  co_await lease_.stop();
  const bool uncertain = claimed_.stands == Stands::perhaps;
  if (take_handed(op_, &work_) == NewerClaim::taken) {
    co_await settle_stream(end, streamed);
    if (uncertain) claimant_.end_later(end_of(op_, Verb::finish, asked), Stands::perhaps);
  } else {
    const bool whole = came_whole(end, streamed);
    if (uncertain) end_bypassed(whole ? streamed.settlement : unknown_settlement, head, asked);
    live->end(whole ? StreamState::whole : StreamState::cut);
  }
  ports_.streams->readers().notify(live->id());
}

void Exchange::start_stream_reply(const Streamed& streamed, Duration sent_at, Ending ending) {
  ports_.waiters.notify(op_.id);
  StreamToRead stream{.id = op_.id, .head = streamed.head, .live = streamed.live};
  const std::string_view type = streamed.answer.head->find("Content-Type").value_or("");
  const http::Framing& framing = streamed.answer.head->framing;
  if (framing.kind == http::Framing::Kind::length) stream.length = framing.length;
  // A streamed length of 0 would mean that the body is complete with its head.
  if (stream.length > 0) reply_->streamed_length = stream.length;
  reply_with_stream(streamed.head, read_stream(reader_ports(type), stream), ending);
  const std::chrono::nanoseconds took = ports_.clock.running() - sent_at;
  ports_.metrics.stream_first_byte_ns.observe(static_cast<std::uint64_t>(took.count()));
  request_->streams->begin_reply();
}

// The head could not be recorded, and nothing was sent to the client.
Task<void> Exchange::answer_unbegun(const Streamed& streamed) {
  op_.nonce = streamed.recorder.nonce();
  if (streamed.recorder.status() == OpStatus::lost) {
    const Committed committed = co_await reply_as_committed();
    if (committed == Committed::yes) co_return;
  } else {
    co_await record(State::unknown, BodyKept::yes, OutcomeBytes());
    if (op_.status == OpStatus::lost) count(ClaimEnd::lost);
  }
  ports_.metrics.streams_cut.add();
  answers().unknown(503, "The backend answered, but its response could not be recorded.");
}

bool Exchange::is_provably_whole(const BackendAnswer& answer) const {
  const Unframed unframed = request_->policy.record.unframed;
  return answer.head->framing.kind != http::Framing::Kind::until_close || unframed == Unframed::keep ||
         (unframed == Unframed::whole && answer.end_announced);
}

bool Exchange::came_whole(StreamEnd end, const Streamed& streamed) const {
  const bool ended = end == StreamEnd::whole || end == StreamEnd::oversize;
  return ended && is_provably_whole(streamed.answer);
}

// Records the end of the stream. Readers of a complete stream get a clean end only after that.
Task<void> Exchange::settle_stream(StreamEnd end, const Streamed& streamed) {
  reply_->came_whole = came_whole(end, streamed);
  if (end == StreamEnd::lost) {
    co_await settle_lost_stream(streamed);
  } else if (reply_->came_whole && streamed.settlement.kind == Settlement::Kind::succeed) {
    co_await settle_whole_stream(end, streamed);
  } else if (reply_->came_whole) {
    co_await settle_unkept_stream(streamed);
  } else {
    const OpStatus recorded = co_await record(State::unknown, BodyKept::yes, OutcomeBytes());
    if (recorded == OpStatus::lost) count(ClaimEnd::lost);
    cut(streamed);
  }
}

// A short body becomes an ordinary record. A longer one stays in chunks; one over the limit is not kept.
Task<void> Exchange::settle_whole_stream(StreamEnd end, const Streamed& streamed) {
  const std::uint64_t length = streamed.recorder.body_bytes();
  const LiveStream::HeldChunks held = streamed.live->held();
  BodyKept kept = BodyKept::no;
  OutcomeBytes outcome = streamed.head;
  if (end == StreamEnd::whole && held.first == 0 && length <= LiveStream::window) {
    kept = BodyKept::yes;
    outcome = joined(held.chunks);
  } else if (end == StreamEnd::whole) {
    kept = BodyKept::in_chunks;
    sometimes<"stream: body stays in chunks">();
    outcome = without_body(streamed.head, length);
  }
  const OpStatus recorded = co_await record(State::succeeded, kept, outcome);
  sometimes<"stream: whole, but its claim is lost">(recorded == OpStatus::lost);
  sometimes<"stream: whole, but its end is not recorded">(recorded == OpStatus::failed);
  if (recorded == OpStatus::lost) {
    co_await settle_lost_stream(streamed);
  } else if (recorded == OpStatus::done && another_outcome_stands(op_)) {
    ports_.metrics.committed_by_backend.add();
    end_as_recorded(streamed);
  } else if (recorded == OpStatus::done) {
    streamed.live->end(StreamState::whole);
  } else {
    cut(streamed);
  }
}

// A complete response that was too large to be held back, and whose status says that it is not recorded as a success.
Task<void> Exchange::settle_unkept_stream(const Streamed& streamed) {
  sometimes<"stream: whole, and not a success">();
  OpStatus settled = OpStatus::done;
  switch (streamed.settlement.kind) {
    case Settlement::Kind::release: settled = co_await release(); break;
    case Settlement::Kind::fail: settled = co_await record(State::failed, BodyKept::yes, OutcomeBytes()); break;
    case Settlement::Kind::unknown: settled = co_await record(State::unknown, BodyKept::yes, OutcomeBytes()); break;
    case Settlement::Kind::succeed: ONCE_ASSERT(false);
  }
  if (settled == OpStatus::lost) {
    co_await settle_lost_stream(streamed);
    co_return;
  }
  // A failure that is not recorded leaves the claim open, so the client must not see a clean end.
  const bool unrecorded = settled == OpStatus::failed && streamed.settlement.kind == Settlement::Kind::fail;
  if (unrecorded) {
    cut(streamed);
  } else {
    streamed.live->end(StreamState::whole);
  }
}

// The claim is lost: an outcome was recorded for it, a new attempt has begun, or the chunks that a newer claim of this
// execution needs are no longer in memory.
Task<void> Exchange::settle_lost_stream(const Streamed& streamed) {
  const Committed committed = co_await claimant_.find_committed(op_);
  if (committed == Committed::yes) {
    count(ClaimEnd::succeeded);
    end_as_recorded(streamed);
    co_return;
  }
  // The record of the stop is gone: an operator removed it, or the memory store evicted it.
  if (streamed.live->is_stopped()) {
    sometimes<"stream: stopped, and the record of it is gone">();
    count(ClaimEnd::lost);
    ports_.metrics.streams_stopped.add();
    streamed.live->end(StreamState::cut);
    co_return;
  }
  const OpStatus recorded = co_await record(State::unknown, BodyKept::yes, OutcomeBytes());
  if (recorded == OpStatus::lost) {
    ports_.metrics.claims_lost.add();
    count(ClaimEnd::lost);
  }
  cut(streamed);
}

// The record wins. A reader continues only if the bytes it got are a prefix of the record; otherwise it is
// disconnected.
void Exchange::end_as_recorded(const Streamed& streamed) {
  const Record& record = *op_.record;
  const auto response = record.outcome ? decode(*record.outcome) : std::nullopt;
  if (is_stopped(record)) {
    sometimes<"stream: ended by a stop">();
    ports_.metrics.streams_stopped.add();
    streamed.live->end(StreamState::cut);
    return;
  }
  const http::Framing& framing = streamed.answer.head->framing;
  const bool continues = response && !response->in_chunks && same_head(record.outcome, streamed.head) &&
                         streamed.recorder.continues_in(response->body) &&
                         (framing.kind != http::Framing::Kind::length || framing.length == response->body.size());
  sometimes<"stream: readers continue in the record">(continues);
  if (!continues) {
    sometimes<"stream: readers do not fit the record">();
    cut(streamed);
    return;
  }
  streamed.live->end_as_committed(counted(record.outcome));
}

void Exchange::cut(const Streamed& streamed) {
  ports_.metrics.streams_cut.add();
  streamed.live->end(StreamState::cut);
}

void Exchange::reply_with_stream(const OutcomeBytes& head, http::ResponseSourcePtr body, Ending ending) {
  if (ending != Ending::bypassed) {
    unstored_fields_.add("Idempotency-Attempt", static_cast<std::uint32_t>(attempt_));
  }
  const auto response = decode(*head);
  reply_->source = std::move(body);
  reply_->streams = true;
  reply_->stream_idle = request_->policy.timeouts.stream_idle;
  reply_->outcome = head;
  write_response(*reply_, *response,
                 {.ending = ending,
                  .request_id = request_->request_id,
                  .extra = unstored_fields_.view(),
                  .expires_at = std::nullopt,
                  .replay_header = {},
                  .wording = request_->policy.wording});
}

// Another request with the same key may have replaced the record since this request saw it. A lookup has no body to
// compare.
bool Exchange::may_read(const Fingerprint& of) const {
  return op_.verb == Verb::read || of == request_->fingerprint;
}

// How the reply is marked, by the current record: it may have changed since the claim was refused.
Ending Exchange::ending_of(const Op& read, Ending seen) const {
  if (owner_works(read)) return Ending::attached;
  const bool unknown = read.record->state == State::unknown && !ports_.executions.has(read.id);
  return unknown ? Ending::unknown : seen;
}

Task<Exchange::Attached> Exchange::attach(Ending ending) {
  if (!may_stream()) co_return Attached::no;
  const std::shared_ptr<LiveStream> live = ports_.streams->find(request_->id);
  OutcomeBytes head = live ? live->head() : nullptr;
  if (live && !may_read(live->fingerprint())) co_return Attached::no;
  sometimes<"attach: the beginning is gone">(live && !head);
  if (live && !head) co_return Attached::too_late;
  Nonce nonce{};
  if (live) {
    attempt_ = live->attempt();
    nonce = live->nonce();
  } else {
    Op read{.verb = Verb::read, .id = request_->id};
    co_await ports_.store.run(read, ports_.home);
    sometimes<"attach: store did not answer">(read.status != OpStatus::done);
    if (read.status != OpStatus::done) co_return Attached::unreadable;
    if (read.record && read.record->state == State::succeeded && may_read(read.record->fingerprint)) {
      co_return Attached::settled;
    }
    if (read.chunks.empty() || !may_read(read.record->fingerprint)) co_return Attached::no;
    ending = ending_of(read, ending);
    sometimes<"attach: to a stream of another gateway">(ending == Ending::attached);
    sometimes<"attach: to the recorded part of an unknown outcome">(ending == Ending::unknown);
    head = read.chunks.front();
    nonce = read.record->nonce;
    attempt_ = read.record->attempt;
  }
  const auto response = decode(*head);
  if (!response) {
    ports_.log.error("recorded outcome cannot be read", {{"operation", to_hex(prefix_of(request_->id))}});
    co_return Attached::unreadable;
  }
  unstored_fields_.clear();
  add_date(unstored_fields_, ports_.clock.now());
  const std::uint64_t offset = co_await find_resume(*response, nonce);
  sometimes<"attach: resumed">(offset > 0);
  if (offset > 0) add_offset_field(offset);
  const StreamToRead stream{.id = request_->id,
                            .head = head,
                            .live = live,
                            .nonce = nonce,
                            .skip = offset,
                            .unknown_outcome = ending == Ending::unknown};
  http::ResponseSourcePtr body = read_stream(reader_ports(content_type_of(response->headers)), stream);
  reply_with_stream(head, std::move(body), ending);
  reply_->reads_store = true;  // chunks of a local stream that are no longer in memory come from the store
  co_return Attached::yes;
}

// The outcome is unknown. If a recorded part exists but the store could not return it now, a retry gets it.
void Exchange::answer_unattached(Attached attached) {
  if (attached == Attached::unreadable) {
    answers().store_fault(StoreFault::unavailable);
  } else {
    answers().held();
  }
}

// A part of another attempt is useless, because its bytes differ.
bool Exchange::has_part_of_this() const {
  const auto attempt = request_->head.find("Idempotency-Attempt");
  sometimes<"resume: the client has a part of another attempt">(attempt && parse_number(*attempt) !=
                                                                               static_cast<std::uint32_t>(attempt_));
  return !attempt || parse_number(*attempt) == static_cast<std::uint32_t>(attempt_);
}

// How many body bytes the client already has, as it states. In a live stream, Last-Event-ID is searched among the
// recorded events.
Task<std::uint64_t> Exchange::find_resume(const StoredResponse& head, const Nonce& nonce) {
  const http::RequestHead& request = request_->head;
  if (request.find("Idempotency-Offset") || !request.find("Last-Event-ID")) {
    co_return resumed_at(head, std::string_view());
  }
  if (!has_part_of_this() || !is_stream_type(content_type_of(head.headers))) co_return 0;
  EventFinder finder(*request.find("Last-Event-ID"));
  Op read{.verb = Verb::read, .id = request_->id};
  read.chunk = 1;
  read.chunk_bytes = bytes_per_read;
  const std::string_view holder = ports_.memory != nullptr ? ports_.memory->holder() : std::string_view();
  while (true) {
    co_await ports_.store.run(read, ports_.home);
    if (read.status != OpStatus::done || read.chunks.empty()) break;
    sometimes<"resume: overtaken while the event is searched">(read.record->nonce != nonce);
    if (read.record->nonce != nonce) co_return 0;  // another attempt has other events
    if (request_->presence != nullptr && request_->presence->has_left()) break;
    const auto scan = [&finder, &read] {
      for (const OutcomeBytes& chunk : read.chunks) finder.add(*chunk);
      return finder.offset();
    };
    // Scan long streams off the loop, so that other requests are not delayed.
    if (ports_.offload == nullptr || read.chunk == 1) {
      scan();
    } else {
      OffloadCall call(*ports_.offload, ports_.home, scan, holder);
      co_await call;
    }
    read.chunk += static_cast<std::uint32_t>(read.chunks.size());
  }
  co_return finder.offset().value_or(0);
}

std::uint64_t Exchange::resumed_at(const StoredResponse& head, std::string_view body) const {
  const http::RequestHead& request = request_->head;
  if (!has_part_of_this()) return 0;
  if (const auto offset = request.find("Idempotency-Offset")) {
    const std::uint64_t bytes = parse_number(*offset).value_or(0);
    return body.data() == nullptr ? bytes : std::min<std::uint64_t>(bytes, body.size());
  }
  const auto last = request.find("Last-Event-ID");
  if (!last) return 0;
  return is_stream_type(content_type_of(head.headers)) ? offset_to_resume(*last, body) : 0;
}

void Exchange::add_offset_field(std::uint64_t offset) {
  unstored_fields_.add("Idempotency-Offset", offset);
}

}  // namespace once::gateway
