// Requests without a key: those that pass through, with a shadow on routes in shadow mode, and resource writes
// (exchange/resource_write.hpp), whose body is complete before they take their turn.
#pragma once

#include <optional>

#include "base/task.hpp"
#include "gateway/connection/client_io.hpp"
#include "gateway/connection/client_presence.hpp"
#include "gateway/connection/reply_writer.hpp"
#include "gateway/connection/request_context.hpp"
#include "gateway/connection/request_reader.hpp"
#include "gateway/exchange/exchange_ports.hpp"
#include "gateway/exchange/resource_write.hpp"
#include "gateway/identity/identify.hpp"
#include "gateway/limits/response_memory.hpp"
#include "gateway/passthrough/passthrough.hpp"
#include "gateway/worker.hpp"

namespace once::gateway {

// Handles one connection's requests, one at a time; PassThrough and its buffers are reused.
class UnkeyedHandler {
 public:
  UnkeyedHandler(Worker& worker, ClientIo& io, RequestReader& reader, ReplyWriter& writer, const ExchangePorts& ports);

  Task<void> answer(RequestContext& request);
  // For a route in shadow mode: the request passes through unchanged and does not wait for the shadow's bookkeeping.
  Task<void> answer_shadowed(RequestContext& request, RequestKey key);

  void release_memory() { pass_.release_memory(); }

 private:
  PassedRequest passed_request(RequestContext& request);
  Task<std::optional<ProblemKind>> pass(RequestContext& request, PassObserver* observer);
  Task<void> answer_write(RequestContext& request, ResourceWrite& write);
  // Counts the request after its response was sent, if there was one.
  Task<void> account(RequestContext& request, const PassedResult& result);

  Worker& worker_;
  GatewayShared& shared_;
  ClientIo& io_;
  RequestReader& reader_;
  ReplyWriter& writer_;
  const ExchangePorts& ports_;
  ClientPresence presence_;
  TagRoom tag_room_;
  PassThrough pass_;
};

}  // namespace once::gateway
