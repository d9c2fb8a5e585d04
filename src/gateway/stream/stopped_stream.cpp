#include "gateway/stream/stopped_stream.hpp"

#include <memory>
#include <string>
#include <utility>

#include "core/headers.hpp"

namespace once::gateway {

OutcomeBytes stopped_outcome(StoredResponse head) {
  std::string headers(head.headers);
  headers.append(stopped_field).append(": true\r\n");
  head.headers = headers;
  head.body = {};
  head.in_chunks = BodyInChunks{};
  return std::make_shared<const std::string>(encode(head));
}

bool is_stopped(const Record& record) {
  const auto response = record.outcome ? decode(*record.outcome) : std::nullopt;
  return response && response->in_chunks && !response->in_chunks->length;
}

void prepare_stop(Op& op, OutcomeBytes outcome) {
  op.verb = Verb::finish;
  op.final_state = State::succeeded;
  op.body_kept = BodyKept::in_chunks;
  op.outcome = std::move(outcome);
}

}  // namespace once::gateway
