#include "gateway/connection/keyed_handler.hpp"

#include "base/offload.hpp"
#include "base/sometimes.hpp"
#include "gateway/exchange/resource_write.hpp"
#include "gateway/identity/life_marker.hpp"
#include "http/trace_context.hpp"

namespace once::gateway {

KeyedHandler::KeyedHandler(Worker& worker, ClientIo& io, RequestReader& reader, ReplyWriter& writer,
                           const Owner& connection)
    : worker_(worker),
      shared_(worker.shared()),
      io_(io),
      reader_(reader),
      writer_(writer),
      place_(connection.place),
      presence_(io.socket),
      memory_(shared_.usage, shared_.readers, shared_.outcomes, worker.loop(), worker.metrics(), connection.room),
      exchange_(worker.exchange_ports(&memory_)) {}

void KeyedHandler::begin_reply() {
  reader_.drop_body();
  begun_ = true;
  spawn(write_beside());
}

Task<void> KeyedHandler::write_beside() {
  written_.clear();
  const http::Transfer reply = co_await writer_.write(*request_);
  writer_.reply().source.reset();  // free it: after a client has left, the source must not delay the exchange
  if (reply == http::Transfer::cut_off) end_cut_reply();
  written_.set();
}

// The response was cut off but the exchange may continue for long: close the client's connection now, or an unchunked
// response would look complete.
void KeyedHandler::end_cut_reply() {
  http::Socket& socket = io_.socket;
  if (socket.write_timed_out()) socket.reset_on_close();
  sometimes<"connection: a response is cut off while its exchange runs">();
  if (socket.resets() || socket.peer_ended() || io_.displaced) {
    place_.hang_up();
  } else if (io_.head.version == http::Version::http_1_1) {
    socket.shut_down_writing();
  }
}

struct KeyedHandler::ClientWatch {
  explicit ClientWatch(KeyedHandler& handler) : socket(handler.io_.socket) {
    if (const auto what = socket.watch_end(handler)) handler.peer_moved(*what);
  }
  ClientWatch(const ClientWatch&) = delete;
  ClientWatch& operator=(const ClientWatch&) = delete;
  ~ClientWatch() { socket.unwatch_end(); }

  http::Socket& socket;
};

// A half-closed client may still read, unless its response was cut off.
void KeyedHandler::peer_moved(http::Socket::Peer what) {
  const bool cut = begun_ && written_.is_set() && !request_->replied;
  sometimes<"connection: the client resets during an exchange">(what == http::Socket::Peer::gone);
  sometimes<"connection: the client half-closes during an exchange">(what != http::Socket::Peer::gone);
  if (what == http::Socket::Peer::gone || cut) {
    place_.hang_up();
  } else {
    place_.client_closed();
  }
}

bool KeyedHandler::may_execute_more(const Limits& limits) const {
  const std::size_t most = limits.max_connections_per_address;
  return place_.clients_left() < (most != 0 ? most : limits.max_connections);
}

Task<KeyedHandler::Identified> KeyedHandler::identify(const RequestIdentity& identity, const std::optional<Key>& key) {
  const auto read = [&identity, &key, body = reader_.body(), large = reader_.large_body()] {
    return Identified{.operation = identity.operation(key, body),
                      .fingerprint = large != nullptr ? large->fingerprint() : identity.fingerprint(body)};
  };
  if (shared_.offload == nullptr || reader_.body().size() <= http::most_bytes_at_once) co_return read();
  const TenantTag holder = identity.holder(tenant_);
  OffloadCall call(*shared_.offload, worker_.loop(), read, std::string_view(holder.data(), holder.size()));
  Identified identified = co_await call;
  co_return identified;
}

KeyedRequest KeyedHandler::keyed_request(RequestContext& request, Backend& backend, const RequestIdentity& identity,
                                         const Fingerprint& fingerprint) {
  const Policy& policy = *request.route.policy;
  const bool of_life = is_of_life(policy, io_.head.method);
  return {.policy = policy,
          .backend = backend,
          .counts = *request.counts,
          .head = io_.head,
          .body = reader_.body(),
          .id = *request.operation,
          .fingerprint = fingerprint,
          .request_id = request.id(),
          .tenant = tenant_of(identity.caller(), shared_.ids, tenant_),
          .route = request.route.route,
          .holder = shared_.store.store().traits().evicts ? identity.holder(tenant_) : TenantTag(),
          .interim = &writer_,
          .strip_prefix = request.route.strip_prefix,
          .origin = &request.origin,
          .presence = &presence_,
          .life = of_life ? std::optional(life_marker(shared_.ids, identity.host(), request.path)) : std::nullopt,
          .use = &request.upstream_use,
          .large_body = reader_.large_body(),
          .keeper = &reader_};
}

// A key can only be derived from a body in memory.
BodyBounds KeyedHandler::bounds_for(const Policy& policy, const std::optional<Key>& key,
                                    const RequestIdentity& identity) const {
  BodyBounds bounds{.in_memory = policy.max_request_body, .identity = &identity};
  const bool larger = policy.max_large_request > policy.max_request_body && shared_.spool != nullptr;
  if (larger && key) bounds.on_disk = policy.max_large_request;
  if (larger && !key) {
    bounds.refusal =
        "The request body is too large for the gateway to derive a key from it. Send the request with a key.";
  }
  return bounds;
}

Task<void> KeyedHandler::answer(RequestContext& request, const std::optional<Key>& key) {
  const Policy& policy = *request.route.policy;
  const Limits& limits = request.settings().limits;
  const Usage::Share share = shared_.usage.begin(limits.max_in_flight);
  if (!share || !may_execute_more(limits)) {
    sometimes<"limits: too many requests in flight">(!share);
    sometimes<"limits: clients that left still execute">(static_cast<bool>(share));
    co_await writer_.refuse_overload(request, Overload::in_flight);
    co_return;
  }
  const RequestIdentity identity(request.rules(), request.facts(), policy);
  if (auto refused = identity.caller_problem()) {
    shared_.log.debug("caller refused",
                      {{"request", request.id()}, {"reason", refused->detail}, {"trace", http::trace_id(io_.head)}});
    co_await writer_.write_problem(request, *std::move(refused));
    co_return;
  }
  if (identity.is_anonymous()) worker_.metrics().without_caller.add();
  KeyQuota quota(*shared_.quotas, limits, shared_.clock);
  if (limits.caller.any() && !quota.begin(tenant_.of(shared_.ids, identity.caller()))) {
    sometimes<"quota: too many requests of a caller">();
    co_await refuse_caller(request, KeyQuota::too_many_at_work);
    co_return;
  }
  const bool at_hand = reader_.take_body_at_hand(policy.max_request_body);
  if (!at_hand && key && awaits_continue(policy)) {
    const Answered refused = co_await refuse_mismatch_unread(request, *key, identity);
    if (refused == Answered::yes) co_return;
  }
  const BodyBounds bounds = bounds_for(policy, key, identity);
  auto body = RequestReader::MessageRead::whole;
  if (!at_hand) body = co_await reader_.read_body(request, bounds);
  if (body != RequestReader::MessageRead::whole) co_return;
  Identified identified = co_await identify(identity, key);
  if (!identified.operation) {
    co_await writer_.write_problem(request, std::move(identified.operation.error()));
    co_return;
  }
  request.operation = *identified.operation;
  const std::optional<TenantTag> address = identity.limited_address();
  quota.charge(address);
  if (quota.is_limited()) {
    const auto refusal = co_await refuse_new_key(quota, *request.operation, shared_.store, worker_.loop());
    if (refusal) {
      co_await refuse_caller(request, *refusal);
      co_return;
    }
  }
  Backend* backend = &request.generation->backend(request.route.upstream);
  // A disconnect does not cancel a keyed request, so the client's presence is not watched.
  const std::unique_ptr<ResourceWrite> write = request.resource_write(ports(), nullptr);
  std::optional<ResourceBackend> resource;
  if (write) backend = &resource.emplace(*write);
  KeyedRequest keyed = keyed_request(request, *backend, identity, identified.fingerprint);
  keyed.quota = &quota;
  keyed.streams = this;
  keyed.writes_resource = write != nullptr;
  request_ = &request;
  begun_ = false;
  memory_.begin(limits.max_body_memory, address ? *address : identity.holder(tenant_));
  co_await execute(keyed, quota);
  if (!begun_) co_await write_reply(request);
  if (write && write->holds_resource()) {
    // The response was too large to keep, and only its end says how the write ended.
    co_await write->end(begun_ && writer_.reply().came_whole, writer_.reply().status);
  }
  request.store_need.end();
  co_await upload_end();
}

// The backend connection may still read the body, which belongs to the request.
Event& KeyedHandler::upload_end() {
  if (reader_.is_sending()) writer_.reply().source.reset();
  return reader_.sent();
}

Task<void> KeyedHandler::execute(KeyedRequest& keyed, KeyQuota& quota) {
  const ClientWatch watch(*this);
  {
    const AtWork::Entry at_work(worker_.metrics().at_work, worker_.loop().now());
    co_await exchange_.run(keyed, writer_.reply());
  }
  quota.settle(writer_.reply());
  if (begun_) co_await written_;  // wait for the reply in progress, whose source may need the store
}

Task<void> KeyedHandler::write_reply(RequestContext& request) {
  reader_.drop_body();                                         // a slow reader keeps only its response in memory
  if (!writer_.reply().reads_store) request.store_need.end();  // and does not delay a handover
  co_await writer_.write(request);
}

Task<void> KeyedHandler::refuse_caller(RequestContext& request, CallerTable::Refusal refusal) {
  worker_.metrics().over_limit[static_cast<std::size_t>(refusal.limit)].add();
  const auto address = client_address(io_.head, io_.peer, request.settings().trusted_proxies);
  shared_.log.warn("caller over a limit", {{"request", request.id()},
                                           {"limit", name_of(refusal.limit)},
                                           {"client", address ? address->text() : std::string(io_.peer)},
                                           {"trace", http::trace_id(io_.head)}});
  co_await writer_.write_problem(request, limit_problem(refusal));
}

}  // namespace once::gateway
