// Requests with a key: limits and caller, then the body, then the exchange, then the reply.
#pragma once

#include <coroutine>
#include <expected>
#include <optional>

#include "base/task.hpp"
#include "core/key.hpp"
#include "gateway/connection/client_io.hpp"
#include "gateway/connection/client_presence.hpp"
#include "gateway/connection/reply_writer.hpp"
#include "gateway/connection/request_context.hpp"
#include "gateway/connection/request_reader.hpp"
#include "gateway/exchange/exchange.hpp"
#include "gateway/identity/identify.hpp"
#include "gateway/identity/tenant_memo.hpp"
#include "gateway/limits/key_quota.hpp"
#include "gateway/limits/response_memory.hpp"
#include "gateway/worker.hpp"

namespace once::gateway {

// The connection's place among all connections, while its request is executed.
class ClientPlace {
 public:
  // The client has closed its side: another connection may have the place from now on.
  virtual void client_closed() = 0;
  // The client has left: gives the descriptor back, too.
  virtual void hang_up() = 0;
  // How many keyed requests from this address go on without their clients.
  virtual std::size_t clients_left() const = 0;

 protected:
  ~ClientPlace() = default;
};

// Of one connection, one request at a time; the exchange and its scratch space are reused.
class KeyedHandler final : private ReplyStart, private http::Socket::Watcher {
 public:
  struct Owner {
    RoomMaker& room;
    ClientPlace& place;
  };
  KeyedHandler(Worker& worker, ClientIo& io, RequestReader& reader, ReplyWriter& writer, const Owner& connection);

  // Without a key, one is derived from the body.
  Task<void> answer(RequestContext& request, const std::optional<Key>& key);

  // A GET or HEAD with Idempotency-Lookup: what is recorded for the key of another request, whose method the field
  // names. Executes nothing.
  static bool asks_lookup(const http::RequestHead& head);
  Task<void> look_up(RequestContext& request, std::string& path);
  // A DELETE with Idempotency-Stop: ends a response that streams, of the method that the field names.
  static bool asks_stop(const http::RequestHead& head);
  Task<void> stop(RequestContext& request, std::string& path);

  const ExchangePorts& ports() const { return exchange_.ports(); }
  void release_memory() { exchange_.release_memory(); }

 private:
  BodyBounds bounds_for(const Policy& policy, const std::optional<Key>& key, const RequestIdentity& identity) const;
  // The client sends a body that is, or may be, too large for memory only after 100 Continue.
  bool awaits_continue(const Policy& policy) const;
  // It differs from the recorded request, so the body is not asked for. False: nothing was answered.
  Task<bool> refuse_mismatch_unread(RequestContext& request, const Key& key, const RequestIdentity& identity);
  struct Identified {
    std::expected<OperationId, Problem> operation;
    Fingerprint fingerprint;
  };
  // The body is here. A large one is read elsewhere: other connections of this loop would notice.
  Task<Identified> identify(const RequestIdentity& identity, const std::optional<Key>& key);
  KeyedRequest keyed_request(RequestContext& request, Backend& backend, const RequestIdentity& identity,
                             const Fingerprint& fingerprint);
  // A request for what is recorded, which executes nothing.
  KeyedRequest request_about(RequestContext& request, const OperationId& operation);
  Task<void> refuse_caller(RequestContext& request, CallerTable::Refusal refusal);
  struct AskedAbout {
    OperationId id;
    TenantTag caller;
    TenantTag reader;
  };
  // The operation that a lookup or a stop is about, or why there is none. `field` names its method.
  std::expected<AskedAbout, Problem> asked_about(RequestContext& request, std::string_view field, std::string& path);
  // nullopt: it was refused.
  Task<std::optional<AskedAbout>> begin_about(RequestContext& request, std::string_view field, std::string& path,
                                              const Usage::Share& share);

  // After the exchange.
  Task<void> write_reply(RequestContext& request);

  Task<void> execute(KeyedRequest& keyed, KeyQuota& quota);
  // Watches for the end of the client's side while the exchange goes on.
  struct ClientWatch;
  void peer_moved(http::Socket::Peer what) override;
  // A request that executes without its client costs its address no connection, so this is what limits it.
  bool may_execute_more(const Limits& limits) const;

  // A response that streams is written while its exchange goes on.
  void begin_reply() override;
  Task<void> write_beside();
  void end_cut_reply();
  struct WriterIdle;

  Worker& worker_;
  GatewayShared& shared_;
  ClientIo& io_;
  RequestReader& reader_;
  ReplyWriter& writer_;
  ClientPlace& place_;
  ClientPresence presence_;
  ResponseMemory memory_;
  Exchange exchange_;
  TenantMemo tenant_;
  RequestContext* request_ = nullptr;  // the one at hand
  bool begun_ = false;                 // its reply
  bool writing_ = false;
  std::coroutine_handle<> awaits_writer_;
};

}  // namespace once::gateway
