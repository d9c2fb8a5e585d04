// Requests without a key: those that stream by, with a shadow beside them on routes in shadow mode, and writes under
// guard, whose body is whole before their resource is claimed.
#pragma once

#include <memory>
#include <optional>

#include "base/task.hpp"
#include "gateway/connection/client_io.hpp"
#include "gateway/connection/client_presence.hpp"
#include "gateway/connection/reply_writer.hpp"
#include "gateway/connection/request_context.hpp"
#include "gateway/connection/request_reader.hpp"
#include "gateway/exchange/conditional.hpp"
#include "gateway/exchange/exchange_ports.hpp"
#include "gateway/exchange/life.hpp"
#include "gateway/identity/identify.hpp"
#include "gateway/limits/response_memory.hpp"
#include "gateway/passthrough/passthrough.hpp"
#include "gateway/worker.hpp"

namespace once::gateway {

// Of one connection, one request at a time; PassThrough and its scratch space are reused.
class UnkeyedHandler {
 public:
  UnkeyedHandler(Worker& worker, ClientIo& io, RequestReader& reader, ReplyWriter& writer, const ExchangePorts& ports);

  Task<void> answer(RequestContext& request);
  // On a route in shadow mode: the request passes as if there were no Once, and nothing of it waits for the books.
  Task<void> answer_shadowed(RequestContext& request, RequestKey key);

  void release_memory() { pass_.release_memory(); }

 private:
  PassedRequest passed_request(RequestContext& request);
  Task<std::optional<ProblemKind>> pass(RequestContext& request, PassObserver* observer);
  // A write on a route with if_match, or one that ends a life.
  Task<void> answer_guarded(RequestContext& request);
  // Claims the resource, and prepares the end of its life. A problem: the write must not be sent, and nothing is held.
  Task<std::optional<Problem>> enter(const RequestContext& request, const GuardedWrite& write, PassedRequest& passed,
                                     std::optional<LifeEnd>& end);
  bool left_while_waiting();
  Task<void> finish(RequestContext& request, const PassedResult& result);
  // Made when the first guarded write comes.
  WriteGuard& guard();

  Worker& worker_;
  GatewayShared& shared_;
  ClientIo& io_;
  RequestReader& reader_;
  ReplyWriter& writer_;
  const ExchangePorts& ports_;
  ClientPresence presence_;
  TagRoom tag_room_;
  PassThrough pass_;
  std::unique_ptr<WriteGuard> guard_;
};

}  // namespace once::gateway
