// Builds the client's reply from an outcome, either just executed or recorded before.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "base/sometimes.hpp"
#include "base/text.hpp"
#include "core/headers.hpp"
#include "core/large_fingerprint.hpp"
#include "core/outcome.hpp"
#include "gateway/exchange/exchange.hpp"
#include "store/search.hpp"

namespace once::gateway {

// Splits the fields into those that are recorded and those that only this client gets.
void Exchange::split_response_fields(const http::ResponseHead& head) {
  stored_fields_.clear();
  unstored_fields_.clear();
  bool dated = false;
  for (const http::Field& field : head.fields) {
    if (is_stored(field.name, request_->policy.record)) {
      if (!head.hop_by_hop(field.name)) stored_fields_.add(field);
      continue;
    }
    if (same_name(field.name, "Idempotency-Policy")) {
      backend_policy_.add(field.value);
      continue;
    }
    const bool is_dropped = head.hop_by_hop(field.name) || is_reserved_response_header(field.name) ||
                            same_name(field.name, "Content-Length") || same_name(field.name, "X-Request-Id");
    if (is_dropped) continue;
    dated = dated || same_name(field.name, "Date");
    unstored_fields_.add(field);
  }
  if (!dated) add_date(unstored_fields_, ports_.clock.now());
}

OutcomeBytes Exchange::encode_answer(const BackendAnswer& answer) const {
  const bool whole = answer.delivery != Delivery::oversize && answer.delivery != Delivery::streaming;
  const http::RequestHead& asked = request_->head;
  std::string large_body;
  if (request_->large_body != nullptr) {
    large_body = describe_large_body(request_->policy.fingerprint, asked.find("Content-Type").value_or(""),
                                     request_->large_body->size(), asked.find("Content-Digest").value_or(""));
  }
  auto bytes = std::make_shared<std::string>();
  encode_into(*bytes, {.status = answer.head->status,
                       .reason = answer.head->reason,
                       .headers = stored_fields_.lines(),
                       .body = whole ? answer.body : std::string_view(),
                       .original_request_id = request_->request_id,
                       .large_body = large_body});
  return bytes;
}

// Counts the memory of the reply, not of the outcome that the store gets: a store that keeps it would look like a
// client that never reads.
OutcomeBytes Exchange::counted(const OutcomeBytes& outcome) {
  return ports_.memory != nullptr ? ports_.memory->executed(op_.id, op_.nonce, outcome) : outcome;
}

void Exchange::reply_with(BackendAnswer& answer, Ending ending) {
  auto response = decode(*reply_outcome_);
  ONCE_ASSERT(response.has_value());
  if (answer.delivery == Delivery::oversize) {
    if (answer.head->framing.kind == http::Framing::Kind::length) {
      reply_->streamed_length = answer.head->framing.length;
    }
    response->body = answer.body;
    reply_->source = std::move(answer.source);
    reply_->stream_idle = request_->policy.timeouts.stream_idle;
  }
  reply_->outcome = std::move(reply_outcome_);
  // If an outcome was recorded, the record says when it expires.
  const bool kept = op_.verb == Verb::finish && op_.final_state == State::succeeded && op_.record.has_value();
  write_response(*reply_, *response,
                 {.ending = ending,
                  .request_id = request_->request_id,
                  .extra = unstored_fields_.view(),
                  .expires_at = kept ? std::optional(op_.record->expires_at) : std::nullopt,
                  .replay_header = {},
                  .wording = request_->policy.wording});
}

// The recorded outcome for the reply. One that another reply already holds takes no more memory. Null: no memory.
OutcomeBytes Exchange::recorded_for_reply(Ending ending) {
  const Record& record = *op_.record;
  if (ports_.memory == nullptr) return record.outcome;
  if (ending != Ending::replayed) return ports_.memory->executed(op_.id, record.nonce, record.outcome);
  return ports_.memory->replay(op_.id, record.nonce, record.outcome);
}

void Exchange::cannot_read_record() {
  ports_.log.error("recorded outcome cannot be read", {{"operation", to_hex(prefix_of(op_.id))}});
  answers().problem(ProblemKind::store_unavailable, "The recorded response cannot be read.", Ending::rejected);
}

Task<void> Exchange::reply_as_recorded(Ending ending) {
  if (op_.record->body_kept == BodyKept::in_chunks) {
    co_await reply_in_chunks(ending);
  } else {
    reply_recorded(ending);
  }
}

void Exchange::reply_recorded(Ending ending) {
  const Record& record = *op_.record;
  if (record.outcome) reply_outcome_ = recorded_for_reply(ending);
  if (record.outcome && !reply_outcome_) {
    sometimes<"replay: no memory">();
    answers().no_memory();
    return;
  }
  const auto response = reply_outcome_ ? decode(*reply_outcome_) : std::nullopt;
  if (!response) {
    cannot_read_record();
    return;
  }
  if (response->in_chunks) {
    answers().not_kept();
    return;
  }
  attempt_ = record.attempt;
  reply_->outcome = std::move(reply_outcome_);
  unstored_fields_.clear();
  add_date(unstored_fields_, ports_.clock.now());
  StoredResponse sent = *response;
  if (const std::uint64_t offset = resumed_at(sent, sent.body); offset > 0) {
    sometimes<"replay: resumed">();
    sent.body = sent.body.substr(static_cast<std::size_t>(offset));
    add_offset_field(offset);
  }
  write_response(*reply_, sent,
                 {.ending = ending,
                  .request_id = request_->request_id,
                  .extra = unstored_fields_.view(),
                  .expires_at = record.expires_at,
                  .replay_header = ending == Ending::replayed ? std::string_view(request_->policy.wording.replay_header)
                                                              : std::string_view(),
                  .wording = request_->policy.wording});
}

// Readers of a stopped response may have been sent more than is recorded; then its last chunk is empty. The number of
// chunks is not recorded, so read up to the last one.
Task<Exchange::Part> Exchange::stopped_part(const Nonce& nonce) {
  Op read{.verb = Verb::read, .id = op_.id};
  read.chunk_bytes = 1;
  std::uint32_t last = 0;
  std::optional<std::uint32_t> missing;
  bool less = false;
  while (!missing || *missing - last > 1) {
    read.chunk = missing ? last + (*missing - last) / 2 : std::max<std::uint32_t>(1, last * 2);
    co_await claimant_.ask(read);
    if (read.status != OpStatus::done) co_return Part::unreadable;
    if (!read.record || read.record->nonce != nonce) co_return Part::less;
    if (read.chunks.empty()) {
      missing = read.chunk;
    } else {
      last = read.chunk;
      less = read.chunks.front()->empty();
    }
  }
  co_return less ? Part::less : Part::all_that_was_sent;
}

// The body is read from the store as the client takes it. The first part is read before the reply begins, so that a
// missing body becomes an error reply and not a truncated one.
Task<void> Exchange::reply_in_chunks(Ending ending) {
  const Record record = *op_.record;
  const auto response = record.outcome ? decode(*record.outcome) : std::nullopt;
  if (!response || !response->in_chunks) {
    cannot_read_record();
    co_return;
  }
  if (ports_.streams == nullptr) {  // this process cannot stream from chunks
    answers().not_kept();
    co_return;
  }
  RecordedBody begun;
  if (ports_.memory != nullptr) {
    std::optional<ReaderMemory::Room> room = co_await ports_.memory->room_to_read(bytes_per_read);
    if (!room) {
      answers().no_memory();
      co_return;
    }
    begun.room = *std::move(room);
  }
  Op read{.verb = Verb::read, .id = op_.id};
  read.chunk = 1;
  read.chunk_bytes = bytes_per_read;
  co_await claimant_.ask(read);
  if (read.status != OpStatus::done) {
    answers().store_fault(read.fault);
    co_return;
  }
  const std::optional<std::uint64_t> length = response->in_chunks->length;
  const bool stands = read.record && read.record->nonce == record.nonce && may_have_chunks(*read.record);
  if (!stands || (read.chunks.empty() && length.value_or(0) > 0)) {
    sometimes<"replay: chunks are gone">();
    answers().not_kept();
    co_return;
  }
  if (!length) {
    const Part part = co_await stopped_part(record.nonce);
    sometimes<"replay: readers of a stopped stream were sent more">(part == Part::less);
    sometimes<"replay: all of a stopped stream">(part == Part::all_that_was_sent);
    if (part != Part::all_that_was_sent) {
      if (part == Part::unreadable) answers().store_fault(StoreFault::unavailable);
      if (part == Part::less) answers().not_kept();
      co_return;
    }
  }
  begun.chunks = std::move(read.chunks);
  attempt_ = record.attempt;
  unstored_fields_.clear();
  add_date(unstored_fields_, ports_.clock.now());
  std::uint64_t offset = co_await find_resume(*response, record.nonce);
  offset = std::min(offset, length.value_or(offset));
  sometimes<"replay: resumed in chunks">(offset > 0);
  if (offset > 0) add_offset_field(offset);
  const StreamToRead body{.id = op_.id, .head = record.outcome, .nonce = record.nonce, .skip = offset};
  reply_->source = read_recorded(reader_ports({}), body, std::move(begun));
  reply_->reads_store = true;
  reply_->streams = true;
  reply_->stream_idle = request_->policy.timeouts.stream_idle;
  if (length) reply_->streamed_length = *length - offset;
  reply_->outcome = record.outcome;
  write_response(*reply_, *response,
                 {.ending = ending,
                  .request_id = request_->request_id,
                  .extra = unstored_fields_.view(),
                  .expires_at = record.expires_at,
                  .replay_header = ending == Ending::replayed ? std::string_view(request_->policy.wording.replay_header)
                                                              : std::string_view(),
                  .wording = request_->policy.wording});
}

}  // namespace once::gateway
