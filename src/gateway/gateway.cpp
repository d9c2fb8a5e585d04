#include "gateway/gateway.hpp"

#include <algorithm>
#include <latch>
#include <utility>

namespace once {

namespace {

// At least one for each worker.
Result<std::vector<int>> open_listeners(const GatewaySettings& settings) {
  if (!settings.inherited.empty()) return http::share_listeners(settings.inherited, settings.threads);
  const auto endpoint = http::resolve_listener(settings.listen);
  if (!endpoint) return std::unexpected(endpoint.error());
  return http::listen_on(*endpoint, settings.threads);
}

}  // namespace

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
  drain(Drain());
  join();
}

Result<void> Gateway::start() {
  auto generation = Generation::make(settings_.serving);
  if (!generation) return std::unexpected(generation.error());
  generations_.push_back(*std::move(generation));
  const auto listeners = open_listeners(settings_);
  if (!listeners) return std::unexpected(listeners.error());
  listening_ = *listeners;
  address_ = http::bound_endpoint(listening_.front()).text();
  for (unsigned i = 0; i < settings_.threads; ++i) {
    workers_.push_back(std::make_unique<Worker>(shared_, generations_.back()));
  }
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    // There may be more sockets than workers; the kernel spreads connections over all of them.
    std::vector<Listening> mine;
    for (std::size_t j = i; j < listening_.size(); j += workers_.size()) mine.push_back({.fd = listening_[j]});
    threads_.emplace_back([worker = workers_[i].get(), mine = std::move(mine)] { worker->run(mine); });
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
  const Generation* newest = generations_.back().get();
  std::erase_if(generations_, [newest](const std::shared_ptr<Generation>& generation) {
    return generation.use_count() == 1 && generation.get() != newest;
  });
  return generations_.size() > 1;
}

void Gateway::drain(const Drain& how) {
  for (const auto& worker : workers_) worker->drain(how);
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

bool Gateway::needs_store() const {
  return std::ranges::any_of(workers_, [](const auto& worker) {
    const Metrics& metrics = std::as_const(*worker).metrics();
    return !worker->idle_closed() || metrics.may_need_store.value() > 0 || metrics.unsettled.value() > 0;
  });
}

std::vector<const Metrics*> Gateway::metrics() const {
  std::vector<const Metrics*> all;
  for (const auto& worker : workers_) all.push_back(&std::as_const(*worker).metrics());
  return all;
}

}  // namespace once
