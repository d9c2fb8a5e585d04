#include "gateway/gateway.hpp"

#include <algorithm>
#include <latch>
#include <utility>

#include <fmt/format.h>

#include "base/bytes.hpp"
#include "base/descriptor.hpp"

namespace once::gateway {

namespace {

// Opens at least one listener per worker, or none at all.
Result<std::vector<int>> open_listeners(const std::string& address, const std::vector<int>& inherited,
                                        unsigned threads) {
  if (!inherited.empty()) return http::share_listeners(inherited, threads);
  if (address == "off") return std::vector<int>();
  const auto endpoint = http::resolve_listener(address);
  if (!endpoint) return std::unexpected(endpoint.error());
  return http::listen_on(*endpoint, threads);
}

std::string address_of(const std::vector<int>& listeners) {
  return listeners.empty() ? "" : http::bound_endpoint(listeners.front()).text();
}

void share_out(const std::vector<int>& listeners, Over over, std::vector<std::vector<Listening>>& workers) {
  // There may be more sockets than workers, because the kernel spreads connections over all of them.
  for (std::size_t i = 0; i < listeners.size(); ++i) {
    workers[i % workers.size()].push_back({.fd = listeners[i], .over = over});
  }
}

}  // namespace

Gateway::Gateway(const GatewaySettings& settings, const GatewayPorts& ports)
    : settings_(settings),
      ids_(settings.secret),
      faults_(ports.log),
      spool_(spool_disk_, spool_threads_),
      shared_{.ids = ids_,
              .store = ports.store,
              .waiters = ports.waiters,
              .clock = ports.clock,
              .log = ports.log,
              .access = ports.access,
              .faults = faults_,
              .errors_base = settings_.errors_base,
              .via = fmt::format("once-{}", to_hex(SystemRandom().nonce()).substr(0, 16)),
              .connections = 0,
              .spool = &spool_,
              .offload = &body_threads_} {
  settings_.secret = {};  // the ids keep what they need of the secret
  shared_.quotas->anonymous = ids_.tenant({});
  follow_store(ports.store.store(), shared_.quotas, ports.clock);
}

Gateway::~Gateway() {
  if (threads_.empty()) return;
  drain(Drain());
  join();
}

Result<void> Gateway::start() {
  auto generation = Generation::make(settings_.serving, shared_.log, faults_);
  if (!generation) return std::unexpected(generation.error());
  serve_by(*std::move(generation));
  if (settings_.serving.tls.listen == "off" && !settings_.inherited_tls.empty()) {
    return std::unexpected(Error{.source = ErrorSource::config,
                                 .retryable = Retryable::no,
                                 .detail = "a TLS socket was passed in, but tls.listen is off"});
  }
  auto plain = open_listeners(settings_.listen, settings_.inherited, settings_.threads);
  if (!plain) return std::unexpected(plain.error());
  auto tls = open_listeners(settings_.serving.tls.listen, settings_.inherited_tls, settings_.threads);
  if (!tls) {
    for (const int fd : *plain) const Descriptor closed(fd);
    return std::unexpected(tls.error());
  }
  listening_ = *std::move(plain);
  tls_listening_ = *std::move(tls);
  address_ = address_of(listening_);
  tls_address_ = address_of(tls_listening_);
  for (unsigned i = 0; i < settings_.threads; ++i) {
    const WorkerShare share{.worker = i, .workers = settings_.threads};
    workers_.push_back(std::make_unique<Worker>(shared_, share, generations_.back()));
  }
  std::vector<std::vector<Listening>> shares(workers_.size());
  share_out(listening_, Over::plain, shares);
  share_out(tls_listening_, Over::tls, shares);
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    threads_.emplace_back([worker = workers_[i].get(), mine = std::move(shares[i])] { worker->run(mine); });
  }
  return {};
}

Result<void> Gateway::reload(const ServingSettings& settings) {
  ServingSettings next = settings;
  next.tls.listen = settings_.serving.tls.listen;
  auto generation = Generation::make(next, shared_.log, faults_);
  if (!generation) return std::unexpected(generation.error());
  serve_by(*std::move(generation));
  std::latch adopted(static_cast<std::ptrdiff_t>(workers_.size()));
  for (const auto& worker : workers_) worker->adopt(generations_.back(), adopted);
  adopted.wait();
  reap();
  return {};
}

void Gateway::serve_by(std::shared_ptr<Generation> generation) {
  generations_.push_back(std::move(generation));
  const std::scoped_lock lock(newest_mutex_);
  newest_ = generations_.back();
}

std::shared_ptr<const Generation> Gateway::generation() const {
  const std::scoped_lock lock(newest_mutex_);
  return newest_;
}

void Gateway::reap() {
  // The list holds the last reference, so no worker can start using it again.
  const Generation* newest = generations_.back().get();
  std::erase_if(generations_, [newest](const std::shared_ptr<Generation>& generation) {
    return generation.use_count() == 1 && generation.get() != newest;
  });
}

void Gateway::drain(const Drain& how) {
  for (const auto& worker : workers_) worker->drain(how);
}

void Gateway::pause(const Drain& how) {
  std::latch done(static_cast<std::ptrdiff_t>(workers_.size()));
  for (const auto& worker : workers_) worker->pause(how, done);
  done.wait();
}

void Gateway::resume() {
  std::latch done(static_cast<std::ptrdiff_t>(workers_.size()));
  for (const auto& worker : workers_) worker->resume(done);
  done.wait();
}

void Gateway::wait_for_turns() {
  for (const auto& worker : workers_) http::wait_for_turn(worker->loop());
}

std::vector<http::Loop*> Gateway::loops() const {
  std::vector<http::Loop*> all;
  for (const auto& worker : workers_) all.push_back(&worker->loop());
  return all;
}

Gateway::Ended Gateway::join() {
  for (std::jthread& thread : threads_) thread.join();
  threads_.clear();
  Ended ended = Ended::clean;
  for (const auto& worker : workers_) {
    // Ops that the store did not accept were being retried by coroutines that will not be resumed any more.
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

std::uint64_t Gateway::idle_releases() const {
  std::uint64_t sum = 0;
  for (const auto& worker : workers_) sum += std::as_const(*worker).metrics().idle_releases.value();
  return sum;
}

std::map<std::string, RouteTotals> Gateway::routes() const {
  return route_totals(metrics());
}

std::chrono::nanoseconds Gateway::oldest_at_work() const {
  const std::chrono::nanoseconds now = monotonic_now();
  std::chrono::nanoseconds oldest{};
  for (const auto& worker : workers_) {
    oldest = std::max(oldest, std::as_const(*worker).metrics().at_work.oldest(now));
  }
  return oldest;
}

std::vector<const Metrics*> Gateway::metrics() const {
  std::vector<const Metrics*> all;
  for (const auto& worker : workers_) all.push_back(&std::as_const(*worker).metrics());
  all.push_back(&beside_);
  return all;
}

Reserved Gateway::take_memory(HeldFor what, std::size_t bytes) {
  const Reserved taken = shared_.usage.take(what, bytes, generation()->settings.limits.max_body_memory);
  if (taken == Reserved::yes) return taken;
  beside_.overloaded[static_cast<std::size_t>(Overload::body_memory)].add();
  return taken;
}

std::optional<StreamInfo> Gateway::stream(const OperationId& id) {
  const std::shared_ptr<LiveStream> live = shared_.streams.find(id);
  return live ? std::optional(live->info()) : std::nullopt;
}

}  // namespace once::gateway
