#include "sim/sim_gateway.hpp"

#include <fmt/format.h>

#include "base/assert.hpp"

namespace once::sim {

namespace {

constexpr unsigned most_turns_of_the_dead = 200'000;
constexpr int longest_wait = 1000;

// Servers are named by their addresses: nothing is resolved.
Result<http::Endpoints> address_itself(const std::string& host, const std::string& port) {
  return http::Endpoints{Network::address(host, static_cast<std::uint16_t>(std::stoi(port)))};
}

}  // namespace

SimGateway::SimGateway(Parts parts)
    : net_(parts.network),
      clock_(parts.clock, net_),
      log_(clock_, -1, LogLevel::off, LogFormat::json),
      access_(log_),
      random_(parts.seed),
      disk_(parts.spool),
      shared_{.ids = ids_,
              .store = parts.store,
              .waiters = parts.waiters,
              .clock = clock_,
              .log = log_,
              .access = access_,
              .faults = *this,
              .errors_base = "urn:once:error:",
              .net = net_,
              .random = &random_},
      world_(parts.network.world()) {
  shared_.quotas->anonymous = ids_.tenant({});
  follow_store(parts.store.store(), shared_.quotas, clock_);
  if (disk_ != nullptr) shared_.spool = &spool_.emplace(*disk_, *disk_);
  const std::shared_ptr<Generation> generation = make_generation(parts.settings);
  for (unsigned i = 0; i < parts.workers; ++i) {
    workers_.push_back(
        std::make_unique<Worker>(shared_, WorkerShare{.worker = i, .workers = parts.workers}, generation));
    Worker& worker = *workers_.back();
    drive(worker.loop());
    worker.start({{.fd = net_.listen(parts.listen), .over = Over::plain}});
  }
}

void SimGateway::drive(http::Loop& loop) {
  SimPoller& poller = *net_.pollers().back();
  running_loops_.push_back(
      {.loop = &loop, .poller = &poller, .driver = std::make_unique<LoopDriver>(world_, loop, poller)});
  running_loops_.back().driver->after_turn = look_;
}

SimGateway::~SimGateway() {
  if (!ended_ && !stopped()) die();
}

std::shared_ptr<Generation> SimGateway::make_generation(const ServingSettings& settings) {
  auto upstreams = Upstreams::open(settings.upstreams, address_itself, nullptr, log_, *this, &net_);
  ONCE_ASSERT(upstreams.has_value());
  UpstreamWatch& watch = (*upstreams)->watch();
  if (watch.has_checks()) drive(watch.loop());
  return generations_.emplace_back(std::make_shared<Generation>(settings, std::move(*upstreams)));
}

bool SimGateway::reload(const ServingSettings& settings) {
  if (adopted_ && !adopted_->try_wait()) return false;
  adopted_ = std::make_unique<std::latch>(static_cast<std::ptrdiff_t>(workers_.size()));
  stop_checks();
  const std::shared_ptr<Generation> generation = make_generation(settings);
  for (const auto& worker : workers_) worker->adopt(generation, *adopted_);
  return true;
}

void SimGateway::start_service(const http::Endpoint& at, std::function<std::string(const http::ServiceRequest&)> judge,
                               std::function<void(const std::string&)> wrong) {
  service_ = std::make_unique<SimService>(
      SimService::Parts{.net = net_,
                        .listen = at,
                        .faults = *this,
                        .max_connections = generations_.back()->settings.limits.max_connections,
                        .judge = std::move(judge),
                        .wrong = std::move(wrong)});
  drive(service_->loop());
}

// Stops the health checks of the newest generation: those of earlier ones have been stopped.
void SimGateway::stop_checks() {
  UpstreamWatch& watch = generations_.back()->upstreams->watch();
  if (watch.has_checks()) watch.stop();
}

void SimGateway::connection_fault(const http::ConnectionFault& fault) {
  faults_.push_back(fmt::format("{} ({}:{})", fault.invariant, fault.file, fault.line));
}

void SimGateway::after_turn(const std::function<void()>& look) {
  look_ = look;
  for (const RunningLoop& each : running_loops_) each.driver->after_turn = look;
}

void SimGateway::pause(Duration length) {
  for (const RunningLoop& each : running_loops_) each.driver->pause(length);
}

void SimGateway::drain(const Drain& how) {
  for (const auto& worker : workers_) worker->drain(how);
  if (std::exchange(draining_, true)) return;
  stop_checks();
  if (service_) service_->stop();
}

bool SimGateway::stopped() const {
  return std::ranges::all_of(running_loops_, [](const RunningLoop& each) { return each.driver->stopped(); });
}

bool SimGateway::die() {
  if (ended_) return true;
  for (const RunningLoop& each : running_loops_) each.driver->let_go();
  net_.kill();
  if (disk_ != nullptr) disk_->cut_off();
  drain({.limit = std::chrono::hours(24)});
  std::vector<const RunningLoop*> running;
  for (const RunningLoop& each : running_loops_) {
    if (!each.driver->stopped()) running.push_back(&each);
  }
  for (unsigned turns = 0; turns < most_turns_of_the_dead && !running.empty(); ++turns) {
    std::erase_if(running,
                  [](const RunningLoop* each) { return each->loop->run_ready() == http::Loop::After::stopped; });
    int wait = longest_wait;
    for (const RunningLoop* each : running) {
      const int own = each->loop->wait_milliseconds();
      if (each->poller->has_ready()) wait = 0;
      if (own >= 0) wait = std::min(wait, own);
    }
    net_.advance(Duration(wait));
  }
  ended_ = true;
  // Leak these objects: coroutines that never end still use them.
  if (!running.empty()) {
    for (auto& worker : workers_) static_cast<void>(worker.release());
    workers_.clear();
    static_cast<void>(std::make_unique<decltype(generations_)>(generations_).release());
    static_cast<void>(service_.release());
  }
  return running.empty();
}

std::uint64_t SimGateway::sum(gateway::Counter Metrics::* counter) const {
  std::uint64_t all = 0;
  for (const auto& worker : workers_) all += (std::as_const(*worker).metrics().*counter).value();
  return all;
}

void SimGateway::for_each_upstream(const std::function<void(const UpstreamState&)>& look) const {
  for (const auto& generation : generations_) {
    for (std::size_t i = 0; i < generation->upstreams->size(); ++i) look((*generation->upstreams)[i]);
  }
}

std::vector<std::string> SimGateway::left_over() {
  std::vector<std::string> left;
  const auto check = [&left](std::string_view name, std::uint64_t value) {
    if (value != 0) left.push_back(fmt::format("{}: {}", name, value));
  };
  check("connections_open", sum(&Metrics::connections_open));
  check("may_need_store", sum(&Metrics::may_need_store));
  check("metrics.in_flight", sum(&Metrics::in_flight));
  check("waiting", sum(&Metrics::waiting));
  check("unsettled", sum(&Metrics::unsettled));
  for (const auto& worker : workers_) check("held", worker->held());
  for (const auto& worker : workers_) check("windows", worker->loop().windows().taken());
  check("connections", shared_.connections);
  check("half-closed connections", shared_.half_closed);
  check("in_flight", shared_.usage.in_flight);
  check("body_bytes", shared_.usage.body_bytes);
  for_each_upstream([&check](const UpstreamState& upstream) { check("queued", upstream.queued); });
  // This closes the connections that are idle in the pools.
  running_loops_.clear();
  if (service_) {
    check("connections of the service", service_->connections());
    check("memory of the service", service_->memory());
    service_.reset();
  }
  workers_.clear();
  ended_ = true;
  for_each_upstream([&check](const UpstreamState& upstream) {
    for (const auto& server : upstream.servers) check("connections to backends", server->connections);
  });
  check("descriptors", net_.open_descriptors());
  if (disk_ != nullptr) {
    disk_->cut_off();
    check("bytes of the spool", spool_->bytes());
    check("files of the spool", disk_->open_files());
  }
  return left;
}

}  // namespace once::sim
