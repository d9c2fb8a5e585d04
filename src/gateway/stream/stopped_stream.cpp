#include "gateway/stream/stopped_stream.hpp"

#include <memory>
#include <string>
#include <utility>

namespace once::gateway {

namespace {

// A field of this name from the backend is never recorded.
constexpr std::string_view stopped_line = "Idempotency-Stopped: true\r\n";

}  // namespace

OutcomeBytes stopped_outcome(StoredResponse head) {
  std::string headers(head.headers);
  headers.append(stopped_line);
  head.headers = headers;
  head.body = {};
  head.in_chunks = BodyInChunks{};
  return std::make_shared<const std::string>(encode(head));
}

bool is_stopped(const Record& record) {
  const auto response = record.outcome ? decode(*record.outcome) : std::nullopt;
  if (!response) return false;
  const bool frozen = response->in_chunks && !response->in_chunks->length;
  return frozen || response->headers.contains(stopped_line);
}

void prepare_stop(Op& op, OutcomeBytes outcome) {
  op.verb = Verb::finish;
  op.final_state = State::succeeded;
  op.body_kept = BodyKept::in_chunks;
  op.outcome = std::move(outcome);
}

}  // namespace once::gateway
