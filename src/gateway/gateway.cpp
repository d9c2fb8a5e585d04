#include "gateway/gateway.hpp"

#include <latch>
#include <utility>

namespace once {

Gateway::Gateway(const GatewaySettings& settings, const GatewayPorts& ports)
    : settings_(settings),
      ids_(settings.secret),
      shared_{.ids = ids_,
              .store = ports.store,
              .waiters = ports.waiters,
              .clock = ports.clock,
              .log = ports.log,
              .access_log = ports.access_log,
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
  auto generation = Generation::make(settings_.serving);
  if (!generation) return std::unexpected(generation.error());
  generations_.push_back(*std::move(generation));
  const auto endpoint = http::resolve_listener(settings_.listen);
  if (!endpoint) return std::unexpected(endpoint.error());
  const auto listeners = http::listen_on(*endpoint, settings_.threads);
  if (!listeners) return std::unexpected(listeners.error());
  address_ = http::bound_endpoint(listeners->front()).text();
  for (std::size_t i = 0; i < listeners->size(); ++i) {
    workers_.push_back(std::make_unique<Worker>(shared_, generations_.back()));
  }
  for (std::size_t i = 0; i < listeners->size(); ++i) {
    threads_.emplace_back([worker = workers_[i].get(), listener = (*listeners)[i]] { worker->run(listener); });
  }
  return {};
}

Result<void> Gateway::reload(const ServingSettings& settings) {
  auto generation = Generation::make(settings);
  if (!generation) return std::unexpected(generation.error());
  generations_.push_back(*std::move(generation));
  std::latch adopted(static_cast<std::ptrdiff_t>(workers_.size()));
  for (const auto& worker : workers_) worker->adopt(generations_.back(), adopted);
  adopted.wait();
  reap();
  return {};
}

bool Gateway::reap() {
  // Only the list has it: no worker can come back to it.
  std::erase_if(generations_, [this](const std::shared_ptr<Generation>& generation) {
    return generation.use_count() == 1 && generation != generations_.back();
  });
  return generations_.size() > 1;
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
