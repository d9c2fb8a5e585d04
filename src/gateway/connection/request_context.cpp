#include "gateway/connection/request_context.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "gateway/exchange/resource_write.hpp"
#include "gateway/identity/life_marker.hpp"
#include "gateway/identity/request_id.hpp"
#include "gateway/identity/scope.hpp"
#include "http/trace_context.hpp"

namespace once::gateway {

RequestContext::RequestContext(Worker& worker, ClientIo& on, RequestScratch& reused)
    : shared(worker.shared()),
      io(on),
      scratch(reused),
      generation(worker.generation()),
      began(worker.loop().now()),
      sent_before(on.socket.written()),
      logged(settings().access_log),
      origin(on.origin(settings().trusted_proxies)),
      store_need(worker.metrics().may_need_store),
      route(generation->routes().none()),
      counts(&generation->counts_of_none()),
      wording(&generation->routes().common_wording()),
      client_address(on.peer) {
  scratch.id.clear();
  io.timeouts = &settings().timeouts;
  io.socket.set_least_rate(settings().limits.min_rate);
}

void RequestContext::head_arrived(Random& random) {
  append_id_of(io.head, random, scratch.id);
  if (!logged) return;
  trace = http::trace_id(io.head);
  if (origin.peer() == PeerTrust::client) return;
  const auto address = gateway::client_address(io.head, io.peer, settings().trusted_proxies);
  if (!address) return;
  forwarded_from = address->text();
  client_address = forwarded_from;
}

void RequestContext::take_route(const RoutedPolicy& found) {
  route = found;
  counts = &generation->counts(found);
  if (found.policy != nullptr) wording = &found.policy->wording;
}

IdentityRules RequestContext::rules() const {
  return {.settings = settings(),
          .routes = generation->routes(),
          .ids = shared.ids,
          .tokens = generation->tokens(),
          .clock = shared.clock};
}

RequestFacts RequestContext::facts() const {
  return {.head = io.head,
          .peer = io.peer,
          .trust = origin.peer(),
          .transport = io.transport(),
          .tls_subject = io.tls_subject,
          .tls_issuer = io.tls_issuer};
}

std::unique_ptr<ResourceWrite> RequestContext::resource_write(const ExchangePorts& ports, Presence* presence) {
  const Policy* policy = route.policy;
  if (policy == nullptr || !writes_resource(*policy, io.head.method)) return nullptr;
  std::optional<OperationId> life;
  if (ends_life(*policy, io.head.method)) {
    life = life_marker(shared.ids, AskedHost(io.head, settings().hosts, origin.peer()), path);
  }
  const WriteRequest write{.policy = *policy,
                           .backend = generation->backend(route.upstream),
                           .head = io.head,
                           .request_id = id(),
                           .resource = path,
                           .life = life,
                           .strip_prefix = route.strip_prefix,
                           .origin = &origin,
                           .presence = presence};
  return std::make_unique<ResourceWrite>(ports, shared.ids, write);
}

void RequestContext::close_unless_read() {
  if (!io.body.ended()) close_unread();
}

void RequestContext::close_unread() {
  io.head.persistence = http::Persistence::close;
  body_unread = true;
}

}  // namespace once::gateway
