#include "sim/sim_gateway.hpp"

#include <fmt/format.h>

#include "base/assert.hpp"

namespace once::sim {

namespace {

constexpr unsigned most_turns_of_the_dead = 200'000;
constexpr int longest_wait = 1000;

// Servers are named by their addresses: nothing is looked up.
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
      shared_{.ids = ids_,
              .store = parts.store,
              .waiters = parts.waiters,
              .clock = clock_,
              .log = log_,
              .access = access_,
              .faults = *this,
              .errors_base = "urn:once:error:",
              .net = net_,
              .random = &random_} {
  auto upstreams = Upstreams::open(parts.settings.upstreams, address_itself, nullptr, log_, *this);
  ONCE_ASSERT(upstreams.has_value());
  generation_ = std::make_shared<Generation>(parts.settings, std::move(*upstreams));
  for (unsigned i = 0; i < parts.workers; ++i) {
    workers_.push_back(
        std::make_unique<Worker>(shared_, WorkerShare{.worker = i, .workers = parts.workers}, generation_));
    Worker& worker = *workers_.back();
    worker.start({{.fd = net_.listen(parts.listen), .over = Over::plain}});
    drivers_.push_back(std::make_unique<LoopDriver>(parts.network.world(), worker.loop(), *net_.pollers().back()));
  }
}

SimGateway::~SimGateway() {
  if (!ended_ && !stopped()) die();
}

void SimGateway::connection_fault(const http::ConnectionFault& fault) {
  faults_.push_back(fmt::format("{} ({}:{})", fault.invariant, fault.file, fault.line));
}

void SimGateway::after_turn(const std::function<void()>& look) {
  for (const auto& driver : drivers_) driver->after_turn = look;
}

void SimGateway::pause(Duration length) {
  for (const auto& driver : drivers_) driver->pause(length);
}

void SimGateway::drain(const Drain& how) {
  for (const auto& worker : workers_) worker->drain(how);
}

bool SimGateway::stopped() const {
  return std::ranges::all_of(drivers_, [](const auto& driver) { return driver->stopped(); });
}

bool SimGateway::die() {
  if (ended_) return true;
  for (const auto& driver : drivers_) driver->let_go();
  net_.kill();
  drain({.limit = std::chrono::hours(24)});
  struct Running {
    http::Loop* loop;
    SimPoller* poller;
  };
  std::vector<Running> running;
  for (std::size_t i = 0; i < workers_.size(); ++i) running.push_back({&workers_[i]->loop(), net_.pollers()[i]});
  for (unsigned turns = 0; turns < most_turns_of_the_dead && !running.empty(); ++turns) {
    std::erase_if(running, [](const Running& each) { return !each.loop->run_ready(); });
    int wait = longest_wait;
    for (const Running& each : running) {
      const int own = each.loop->wait_milliseconds();
      if (each.poller->has_ready()) wait = 0;
      if (own >= 0) wait = std::min(wait, own);
    }
    net_.advance(Duration(wait));
  }
  ended_ = true;
  // Coroutines that never end still use them.
  if (!running.empty()) {
    for (auto& worker : workers_) static_cast<void>(worker.release());
    workers_.clear();
  }
  return running.empty();
}

std::uint64_t SimGateway::sum(Counter Metrics::* counter) const {
  std::uint64_t all = 0;
  for (const auto& worker : workers_) all += (std::as_const(*worker).metrics().*counter).value();
  return all;
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
  check("connections", shared_.connections);
  check("in_flight", shared_.load.in_flight);
  check("body_bytes", shared_.load.body_bytes);
  for (std::size_t i = 0; i < generation_->upstreams->size(); ++i) check("queued", (*generation_->upstreams)[i].queued);
  // Connections that idle in the pools are closed with them.
  drivers_.clear();
  workers_.clear();
  ended_ = true;
  for (std::size_t i = 0; i < generation_->upstreams->size(); ++i) {
    for (const auto& server : (*generation_->upstreams)[i].servers)
      check("connections to backends", server->connections);
  }
  check("descriptors", net_.open_descriptors());
  return left;
}

}  // namespace once::sim
