// Streaming responses, and those whose body is in chunks, as shown to operators: the summary of a key, its body in
// parts, and the checks before it is stopped.
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "admin/keys.hpp"
#include "admin/keys_answers.hpp"
#include "admin/streams_json.hpp"
#include "core/outcome.hpp"
#include "gateway/stream/stopped_stream.hpp"

namespace once::admin {

using http::ServiceRequest;
using http::ServiceResponse;

namespace {

// The part of a body in one response.
constexpr std::size_t body_piece = std::size_t{256} << 10U;
// A stream is measured by reading it in pieces of this size. For a longer one the number of chunks is omitted.
constexpr std::size_t measured_piece = std::size_t{1} << 20U;
constexpr std::size_t most_measured = std::size_t{16} << 20U;

// The pause before answering that there is nothing new, so that a client that follows a stream polls only a few times a
// second.
constexpr Duration look_again = std::chrono::milliseconds(250);

std::optional<std::uint64_t> recorded_length(const Record& record) {
  const auto response = record.outcome ? decode(*record.outcome) : std::nullopt;
  return response && response->in_chunks ? response->in_chunks->length : std::nullopt;
}

}  // namespace

// Empty: the response does not stream, and is not in chunks.
Task<Result<std::string>> KeysApi::stream_member(const KeyInfo& key, Executor& home) {
  if (!may_have_chunks(key.state, key.body_kept)) co_return "";
  Op read{.verb = Verb::read, .id = key.id, .chunk_bytes = measured_piece};
  BodyState state = BodyState::none;
  StreamSize size;
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;
  bool all = false;
  while (!all && bytes < most_measured) {
    co_await ports_.store.run(read, home);
    if (read.status == OpStatus::failed) {
      co_return std::unexpected(Error{.source = ErrorSource::store, .retryable = Retryable::yes, .detail = read.error});
    }
    const bool same = read.record && read.record->nonce == key.nonce && read.record->state == key.state;
    if (!same) co_return "";
    if (read.chunk == 0) {
      if (read.chunks.empty()) co_return "";
      state = body_state(read);
    }
    all = read.chunks.empty();
    for (std::size_t i = read.chunk == 0 ? 1 : 0; i < read.chunks.size(); ++i) {
      ++chunks;
      bytes += read.chunks[i]->size();
    }
    read.chunk += static_cast<std::uint32_t>(read.chunks.size());
  }
  const auto live = ports_.gateway.stream(key.id);
  if (live) size.readers = live->readers;
  if (all) size.chunks = chunks;
  size.bytes = all ? std::optional(bytes) : recorded_length(*read.record);
  if (!size.bytes && live) size.bytes = live->bytes;
  co_return stream_member_json(state, size);
}

Task<ServiceResponse> KeysApi::body(const ServiceRequest& request, std::string_view id, Executor& home) {
  const auto from = read_body_place(query_of(request.head));
  if (!from) co_return refused_key(ProblemKind::parameter_invalid, "\"cursor\": expected the \"next\" of an answer.");
  const Seen seen = co_await look(id, home);
  if (seen.problem) co_return key_answer(*seen.problem);
  Op read{.verb = Verb::read, .id = seen.key->id, .chunk = from->chunk, .chunk_bytes = body_piece};
  co_await ports_.store.run(read, home);
  const BodyState state = body_state(read);
  const bool awaits = read.chunks.empty() && (state == BodyState::streaming || state == BodyState::awaited);
  if (from->attempt != 0 && awaits) {
    co_await sleep_for(home, look_again);
    co_await ports_.store.run(read, home);
  }
  if (read.status == OpStatus::failed) co_return refused_key(ProblemKind::store_unavailable, read.error);
  if (!read.record) co_return refused_key(ProblemKind::not_found, "There is no such key.");
  if (from->attempt != 0 && from->attempt != static_cast<std::uint32_t>(read.record->attempt)) {
    co_return refused_key(ProblemKind::claim_lost, "Another attempt has begun, with a different response.");
  }
  co_return key_answer(body_json(read, *from, body_piece));
}

// The streamed head becomes the head of the recorded response.
Task<std::optional<Problem>> KeysApi::find_stream(const KeyInfo& key, ActionRequest& asked, Executor& home) {
  Op read{.verb = Verb::read, .id = key.id};
  co_await ports_.store.run(read, home);
  std::optional<Problem> refused;
  const bool same = read.record && read.record->nonce == key.nonce && read.record->state == key.state;
  const auto head = read.chunks.empty() ? std::nullopt : decode(*read.chunks.front());
  if (read.status == OpStatus::failed) {
    refused = problem(ProblemKind::store_unavailable, read.error);
  } else if (!same) {
    refused = problem(ProblemKind::claim_lost, "The key has changed in the meantime; nothing was changed.");
  } else if (key.state == State::succeeded) {
    refused = problem(ProblemKind::claim_lost, gateway::is_stopped(*read.record)
                                                   ? "This response was stopped before."
                                                   : "This response has ended, so there is nothing to stop.");
  } else if (!head) {
    refused = problem(ProblemKind::in_flight, "The request of this key is running, and its response does not stream.");
  } else {
    asked.outcome = gateway::stopped_outcome(*head);
  }
  co_return refused;
}

}  // namespace once::admin
