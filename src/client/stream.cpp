// stream() and stop(): what an operation's result means for a stream.
#include <utility>

#include "base/text.hpp"
#include "client/key_file.hpp"
#include "client/operation.hpp"
#include "client/stream_body.hpp"

namespace once::client {

namespace {

bool is_held(const Result& result) {
  return result.happened == Happened::broken_off || result.happened == Happened::unknown_held ||
         (result.answer && result.answer->header("Idempotency-Status") == "unknown");
}

StreamEnd end_of(const Result& result, const StreamBody& body) {
  if (result.happened == Happened::new_attempt) return StreamEnd::new_attempt;
  if (!body.has_begun()) return StreamEnd::not_begun;
  if (result.happened == Happened::success) return StreamEnd::whole;
  if (result.happened == Happened::not_protected) return StreamEnd::not_protected;
  if (result.stop_reason == StopReason::cancelled) return StreamEnd::left;
  if (is_held(result)) return StreamEnd::outcome_unknown;
  return result.stop_reason == StopReason::answered ? StreamEnd::refused : StreamEnd::gave_up;
}

// The key of the operation to stop: the given one, or that in its key file. The body is not needed, so whether the file
// belongs to this request cannot be checked.
std::expected<std::string, std::string> key_to_stop(const Asked& asked) {
  if (!asked.request.key.empty()) return asked.request.key;
  auto record = KeyFile(asked.options.key_file).read();
  if (!record) return std::unexpected(std::move(record.error()));
  return std::move(record->key);
}

}  // namespace

std::string_view name(StreamEnd end) {
  switch (end) {
    case StreamEnd::whole: return "whole";
    case StreamEnd::not_begun: return "not-begun";
    case StreamEnd::outcome_unknown: return "outcome-unknown";
    case StreamEnd::new_attempt: return "new-attempt";
    case StreamEnd::refused: return "refused";
    case StreamEnd::not_protected: return "not-protected";
    case StreamEnd::gave_up: return "gave-up";
    case StreamEnd::left: return "left";
  }
  return {};
}

StreamResult run_stream(const Asked& asked, const Reader& reader, const Ports& ports) {
  StreamBody body(reader, asked.request.headers);
  Result result = run_operation(
      {.options = asked.options, .request = asked.request, .watcher = asked.watcher, .stop = asked.stop, .body = &body},
      ports);
  return {.end = end_of(result, body),
          .stopped = body.stopped(),
          .received = body.received(),
          .attempt = body.attempt(),
          .result = std::move(result)};
}

StopResult run_stop(const Asked& asked, const Ports& ports) {
  const Request& operation = asked.request;
  if (operation.key.empty() && asked.options.key_file.empty()) {
    return {.result = {.stop_reason = StopReason::bad_request, .detail = "the key of the request is needed"}};
  }
  auto key = key_to_stop(asked);
  if (!key) return {.result = {.stop_reason = StopReason::key_file, .detail = std::move(key.error())}};
  Request request{.method = "DELETE", .url = operation.url, .key = *std::move(key)};
  for (const Header& header : operation.headers) {
    if (!iequals(header.name, "Content-Type")) request.headers.push_back(header);  // there is no body
  }
  request.headers.push_back({.name = "Idempotency-Stop", .value = operation.method});
  Options options = asked.options;
  options.key_file.clear();  // left unchanged: the operation was not sent again
  Result result =
      run_operation({.options = options, .request = request, .watcher = asked.watcher, .stop = asked.stop}, ports);
  const bool stopped = result.answer && iequals(result.answer->header("Idempotency-Stopped"), "true");
  return {.stopped = stopped ? Stopped::yes : Stopped::no, .result = std::move(result)};
}

}  // namespace once::client
