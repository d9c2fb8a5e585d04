// Responses that are recorded as they stream, and requests that attach to one.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "core/event_stream.hpp"
#include "core/headers.hpp"
#include "core/outcome.hpp"
#include "gateway/exchange/exchange.hpp"
#include "gateway/stream/stream_reader.hpp"

namespace once::gateway {

namespace {

constexpr std::size_t bytes_per_read = std::size_t{256} << 10U;

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

// Of "Name: value" lines.
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

// Behind the event that the client has seen last, if it can be found.
std::uint64_t offset_behind(std::string_view last_event_id, std::string_view body) {
  return last_event_id.empty() ? 0 : offset_after_event(body, last_event_id).value_or(0);
}

}  // namespace

// The claim is ours and the backend has begun to answer. The head is durable before the client is told anything, and
// each chunk before it is told; the end is told when the whole outcome is recorded.
Task<void> Exchange::record_stream(BackendAnswer& answer) {
  said_ = {};
  split_response_fields(*answer.head);
  if (said_.ttl) op_.terms.ttl = *said_.ttl;
  const OutcomeBytes head = encode_answer(answer);
  const std::shared_ptr<LiveStream> live = ports_.streams->make(op_.id, op_.nonce, attempt_);
  const RecordPolicy& policy = request_->policy.record;
  const StreamLimits limits{.max_stream = policy.max_stream,
                            .silence = request_->policy.timeouts.stream_idle,
                            .abandon_after = policy.abandon_after,
                            .lease = request_->policy.lease};
  const StreamRecorderPorts recorder_ports{.claimant = claimant_,
                                           .home = ports_.home,
                                           .clock = ports_.clock,
                                           .metrics = ports_.metrics,
                                           .room = ports_.memory,
                                           .readers = ports_.streams->readers()};
  StreamRecorder recorder(recorder_ports, op_, work_, *live, limits);
  ports_.metrics.streams_begun.add();
  const bool begun = co_await recorder.begin(head);
  StreamEnd end = StreamEnd::unrecorded;
  if (begun) {
    ports_.streams->list(live);
    ports_.waiters.notify(op_.id);
    // The head of an empty body would be its end.
    ReadFrom from;
    if (answer.head->framing.kind == http::Framing::Kind::length) from.length = answer.head->framing.length;
    if (from.length > 0) reply_->streamed_length = from.length;
    const StreamReaderPorts reader{.home = ports_.home, .presence = request_->presence};
    reply_with_stream(head, read_live(live, ports_.streams->readers(), reader, from), Ending::executed);
    request_->streams->begin_reply();
    end = co_await recorder.record(*answer.source);
    if (end == StreamEnd::oversize) {
      const http::BodyChunk::Kind kind = co_await recorder.relay(*answer.source);
      if (kind == http::BodyChunk::Kind::broken) end = StreamEnd::broken;
      if (kind == http::BodyChunk::Kind::timed_out) end = StreamEnd::timed_out;
    }
  } else if (recorder.status() == OpStatus::lost) {
    end = StreamEnd::lost;
  }
  co_await lease_.stop();
  const StreamState state = co_await settle_stream(end, recorder, answer, *live);
  if (state == StreamState::cut) ports_.metrics.streams_cut.add();
  live->end(state);
  if (begun) {
    ports_.streams->remove(*live);
    ports_.streams->readers().notify(live->id());
  } else {
    answers().unknown(503, "The backend answered, but its response could not be recorded.");
  }
}

// What became of the stream becomes a record; a whole one is told only then that it has ended.
Task<StreamState> Exchange::settle_stream(StreamEnd end, const StreamRecorder& recorder, const BackendAnswer& answer,
                                          const LiveStream& live) {
  op_.nonce = recorder.nonce();
  const bool framed = answer.head->framing.kind != http::Framing::Kind::until_close;
  const bool ended = end == StreamEnd::whole || end == StreamEnd::oversize;
  const RecordPolicy& policy = request_->policy.record;
  const bool provably =
      framed || policy.unframed == Unframed::keep || (policy.unframed == Unframed::whole && answer.end_announced);
  if (ended && provably) {
    const bool kept = end == StreamEnd::whole;
    const OutcomeBytes outcome = kept ? joined(live.chunks()) : encode_answer(answer);
    const OpStatus recorded = co_await record(State::succeeded, kept ? BodyKept::yes : BodyKept::no, outcome);
    if (recorded == OpStatus::lost) count(ClaimEnd::lost);
    // What every retry gets may be what somebody else has recorded for this claim: that is not what readers were told.
    const bool stands = recorded == OpStatus::done && !another_outcome_stands(op_);
    reply_->recorded_bytes = stands ? outcome->size() : 0;
    co_return stands ? StreamState::whole : StreamState::cut;
  }
  if (end == StreamEnd::lost) {
    count(ClaimEnd::lost);
    ports_.metrics.claims_lost.add();
    co_return StreamState::cut;
  }
  const OpStatus recorded = co_await record(State::unknown, BodyKept::yes, OutcomeBytes());
  if (recorded == OpStatus::lost) count(ClaimEnd::lost);
  reply_->recorded_bytes = static_cast<std::size_t>(recorder.body_bytes());  // what came of it stays
  co_return StreamState::cut;
}

void Exchange::reply_with_stream(const OutcomeBytes& head, http::ResponseSourcePtr body, Ending ending) {
  unstored_fields_.append("Idempotency-Attempt: ");
  append_number(unstored_fields_, static_cast<std::uint32_t>(attempt_));
  unstored_fields_.append("\r\n");
  const auto response = decode(*head);
  reply_->source = std::move(body);
  reply_->streams = true;
  reply_->stream_idle = request_->policy.timeouts.stream_idle;
  reply_->outcome = head;
  write_response(*reply_, *response,
                 {.ending = ending,
                  .request_id = request_->request_id,
                  .extra = unstored_fields_,
                  .expires_at = std::nullopt,
                  .replay_header = {},
                  .wording = request_->policy.wording});
}

Task<Exchange::Attached> Exchange::attach(Ending ending) {
  if (!may_stream()) co_return Attached::no;
  const std::shared_ptr<LiveStream> live = ports_.streams->find(request_->id);
  OutcomeBytes head = live ? live->head() : nullptr;
  if (live && !head) co_return Attached::too_late;
  Nonce nonce{};
  if (live) {
    attempt_ = live->attempt();
  } else {
    Op read{.verb = Verb::read, .id = request_->id};
    co_await ports_.store.run(read, ports_.home);
    if (read.status != OpStatus::done) co_return Attached::too_late;
    if (read.chunks.empty()) co_return Attached::no;
    head = read.chunks.front();
    nonce = read.record->nonce;
    attempt_ = read.record->attempt;
  }
  const auto response = decode(*head);
  if (!response) {
    ports_.log.error("recorded outcome cannot be read", {{"operation", to_hex(prefix_of(request_->id))}});
    co_return Attached::too_late;
  }
  unstored_fields_.assign("Date: ");
  append_http_date(unstored_fields_, ports_.clock.now());
  unstored_fields_.append("\r\n");
  const std::uint64_t offset = co_await find_resume(*response);
  if (offset > 0) tell_offset(offset);
  const StreamReaderPorts reader{.home = ports_.home, .presence = request_->presence, .memory = ports_.memory};
  const StoredStream stored{.id = request_->id, .nonce = nonce, .head = head};
  http::ResponseSourcePtr body = live ? read_live(live, ports_.streams->readers(), reader, {.skip = offset})
                                      : read_stored(ports_.store, ports_.waiters, reader, stored, offset);
  reply_with_stream(head, std::move(body), ending);
  reply_->reads_store = !live;
  co_return Attached::yes;
}

// A part of another attempt is of no use: that one had other bytes.
bool Exchange::has_part_of_this() const {
  const auto attempt = request_->head.find("Idempotency-Attempt");
  return !attempt || parse_number(*attempt) == static_cast<std::uint32_t>(attempt_);
}

// How much of the body its client has already, as it says itself. Of a stream that goes on, an id is looked for among
// the events that are recorded.
Task<std::uint64_t> Exchange::find_resume(const StoredResponse& head) {
  const http::RequestHead& request = request_->head;
  if (request.find("Idempotency-Offset") || !request.find("Last-Event-ID")) {
    co_return resumed_at(head, std::string_view());
  }
  if (!has_part_of_this() || !is_stream_type(content_type_of(head.headers))) co_return 0;
  EventFinder finder(*request.find("Last-Event-ID"));
  Op read{.verb = Verb::read, .id = request_->id};
  read.chunk = 1;
  read.chunk_bytes = bytes_per_read;
  while (true) {
    co_await ports_.store.run(read, ports_.home);
    if (read.status != OpStatus::done || read.chunks.empty()) break;
    if (read.record->attempt != attempt_) co_return 0;
    for (const OutcomeBytes& chunk : read.chunks) finder.add(*chunk);
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
  return is_stream_type(content_type_of(head.headers)) ? offset_behind(*last, body) : 0;
}

void Exchange::tell_offset(std::uint64_t offset) {
  unstored_fields_.append("Idempotency-Offset: ");
  append_number(unstored_fields_, offset);
  unstored_fields_.append("\r\n");
}

}  // namespace once::gateway
