#include "gateway/gateway.hpp"

#include <utility>

namespace once {

Gateway::Gateway(const GatewaySettings& settings, const GatewayPorts& ports)
    : settings_(settings),
      ids_(settings.secret),
      routes_(settings_.routes, settings_.upstreams),
      shared_{.routes = routes_,
              .ids = ids_,
              .upstreams = settings_.upstreams,
              .endpoints = endpoints_,
              .store = ports.store,
              .waiters = ports.waiters,
              .clock = ports.clock,
              .log = ports.log,
              .access_log = ports.access_log,
              .limits = settings_.limits,
              .timeouts = settings_.timeouts,
              .pool = settings_.pool,
              .errors_base = settings_.errors_base,
              .connections = 0} {
  settings_.secret = {};  // the ids keep what they need of it
}

Gateway::~Gateway() {
  if (threads_.empty()) return;
  drain(Duration::zero());
  join();
}

Result<void> Gateway::start() {
  for (const Upstream& upstream : settings_.upstreams) {
    auto resolved = http::resolve(upstream.host, std::to_string(upstream.port));
    if (!resolved) return std::unexpected(resolved.error());
    endpoints_.push_back(std::move(*resolved));
  }
  const auto endpoint = http::resolve_listener(settings_.listen);
  if (!endpoint) return std::unexpected(endpoint.error());
  const auto listeners = http::listen_on(*endpoint, settings_.threads);
  if (!listeners) return std::unexpected(listeners.error());
  address_ = http::bound_endpoint(listeners->front()).text();
  for (std::size_t i = 0; i < listeners->size(); ++i) workers_.push_back(std::make_unique<Worker>(shared_));
  for (std::size_t i = 0; i < listeners->size(); ++i) {
    threads_.emplace_back([worker = workers_[i].get(), listener = (*listeners)[i]] { worker->run(listener); });
  }
  return {};
}

void Gateway::drain(Duration limit) {
  for (const auto& worker : workers_) worker->drain(limit);
}

Gateway::Ended Gateway::join() {
  for (std::jthread& thread : threads_) thread.join();
  threads_.clear();
  Ended ended = Ended::clean;
  for (const auto& worker : workers_) {
    // What the store did not take is tried on by coroutines that nobody will resume any more.
    const bool unsettled = std::as_const(*worker).metrics().unsettled.value() > 0;
    if (worker->cut_off() || unsettled) ended = Ended::cut_off;
  }
  return ended;
}

std::vector<const Metrics*> Gateway::metrics() const {
  std::vector<const Metrics*> all;
  for (const auto& worker : workers_) all.push_back(&std::as_const(*worker).metrics());
  return all;
}

}  // namespace once
