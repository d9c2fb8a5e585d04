// Requests with a key: checks limits and caller, reads the body, runs the exchange, writes the reply.
#pragma once

#include <expected>
#include <optional>

#include "base/event.hpp"
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

// The connection's place under the connection limit while its request is executed.
class ClientPlace {
 public:
  // The client closed its sending side: another connection may take the place.
  virtual void client_closed() = 0;
  // The client has left: closes the descriptor too.
  virtual void hang_up() = 0;
  // How many keyed requests from this address continue without their clients.
  virtual std::size_t clients_left() const = 0;

 protected:
  ~ClientPlace() = default;
};

// Handles one connection's requests, one at a time; the exchange and its buffers are reused.
class KeyedHandler final : private ReplyStart, private http::Socket::Watcher {
 public:
  struct Owner {
    RoomMaker& room;
    ClientPlace& place;
  };
  KeyedHandler(Worker& worker, ClientIo& io, RequestReader& reader, ReplyWriter& writer, const Owner& connection);

  // Without a given key, one is derived from the body.
  Task<void> answer(RequestContext& request, const std::optional<Key>& key);

  // A GET or HEAD with Idempotency-Lookup: returns what is recorded for the key of another request, whose method the
  // field names. Executes nothing.
  static bool asks_lookup(const http::RequestHead& head);
  Task<void> look_up(RequestContext& request, std::string& path);
  // A DELETE with Idempotency-Stop: stops the streaming response of an operation, whose method the field names.
  static bool asks_stop(const http::RequestHead& head);
  Task<void> stop(RequestContext& request, std::string& path);

  const ExchangePorts& ports() const { return exchange_.ports(); }
  void release_memory() { exchange_.release_memory(); }

 private:
  BodyBounds bounds_for(const Policy& policy, const std::optional<Key>& key, const RequestIdentity& identity) const;
  // Whether the client waits for 100 Continue before it sends a body that is, or may be, too large for memory.
  bool awaits_continue(const Policy& policy) const;
  // Refuses the request before its body is read, if it differs from the recorded one.
  Task<Answered> refuse_mismatch_unread(RequestContext& request, const Key& key, const RequestIdentity& identity);
  struct Identified {
    std::expected<OperationId, Problem> operation;
    Fingerprint fingerprint;
  };
  // Identifies the request by its body. A large body is read off the loop, which it would block.
  Task<Identified> identify(const RequestIdentity& identity, const std::optional<Key>& key);
  KeyedRequest keyed_request(RequestContext& request, Backend& backend, const RequestIdentity& identity,
                             const Fingerprint& fingerprint);
  // The exchange's view of a request that reads or stops a record, and executes nothing.
  KeyedRequest request_about(RequestContext& request, const OperationId& operation);
  Task<void> refuse_caller(RequestContext& request, CallerTable::Refusal refusal);
  struct AskedAbout {
    OperationId id;
    TenantTag caller;
    TenantTag reader;
  };
  // The operation that a lookup or a stop is about, or the problem. `field` names the header with its method.
  std::expected<AskedAbout, Problem> asked_about(RequestContext& request, std::string_view field, std::string& path);
  // nullopt: the request was refused.
  Task<std::optional<AskedAbout>> begin_about(RequestContext& request, std::string_view field, std::string& path,
                                              const Usage::Share& share);

  // Called after the exchange.
  Task<void> write_reply(RequestContext& request);

  Task<void> execute(KeyedRequest& keyed, KeyQuota& quota);
  // Await it before the request is gone.
  Event& upload_end();
  // Watches for the client's close while the exchange runs.
  struct ClientWatch;
  void peer_moved(http::Socket::Peer what) override;
  // A request that executes without its client costs its address no connection, so this limits how many there are.
  bool may_execute_more(const Limits& limits) const;

  // A streaming response is written while its exchange runs.
  void begin_reply() override;
  Task<void> write_beside();
  void end_cut_reply();

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
  RequestContext* request_ = nullptr;     // the current one
  bool begun_ = false;                    // its reply has begun
  Event written_{Event::Initially::set};  // no reply is being written beside the exchange
};

}  // namespace once::gateway
