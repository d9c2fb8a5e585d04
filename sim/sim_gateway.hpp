// One gateway process on a simulated network: the production workers, upstreams, pools and connections in virtual time.
// It collects broken invariants, and lists what the process left behind.
#pragma once

#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/line_writer.hpp"
#include "base/log.hpp"
#include "core/operation.hpp"
#include "gateway/worker.hpp"
#include "http/fault.hpp"
#include "sim/loop_driver.hpp"
#include "sim/random.hpp"
#include "sim/sim_net.hpp"
#include "sim/sim_service.hpp"
#include "sim/sim_spool.hpp"

namespace once::sim {

class SimGateway final : private http::FaultListener {
 public:
  static constexpr std::string_view secret = "the secret of the simulation";

  struct Parts {
    Network& network;
    Lanes& store;
    Waiters& waiters;
    const Clock& clock;
    ServingSettings settings;
    http::Endpoint listen;
    unsigned workers = 1;
    std::uint64_t seed = 1;
    SimSpool* spool = nullptr;  // null: large requests are refused
  };
  explicit SimGateway(Parts parts);
  ~SimGateway();
  SimGateway(const SimGateway&) = delete;
  SimGateway& operator=(const SimGateway&) = delete;

  SimNet& net() { return net_; }
  GatewayShared& shared() { return shared_; }
  Worker& worker(std::size_t index = 0) { return *workers_[index]; }
  std::size_t workers() const { return workers_.size(); }
  const OperationIds& ids() const { return ids_; }
  // Called after every round of any loop.
  void after_turn(const std::function<void()>& look);

  // Starts the operators' service. `judge` checks its requests and `wrong` gets the violations.
  void start_service(const http::Endpoint& at, std::function<std::string(const http::ServiceRequest&)> judge,
                     std::function<void(const std::string&)> wrong);

  void pause(Duration length);
  // Serves new requests with these settings. False: not now, some worker has not adopted the previous ones.
  bool reload(const ServingSettings& settings);
  void drain(const Drain& how);
  // Whether every worker has ended.
  bool stopped() const;
  // Kills the process: its connections end, and its coroutines run to their end without the rest of the simulation. Its
  // store must answer at once by then. False: they do not end.
  bool die();

  // Call after its end: gauges that are not zero, and open descriptors.
  std::vector<std::string> left_over();
  // Broken invariants of connections.
  const std::vector<std::string>& faults() const { return faults_; }
  // Summed over all workers.
  std::uint64_t sum(gateway::Counter Metrics::* counter) const;

 private:
  // The machine's clock, which runs ahead when the process is run to its end.
  class OwnClock final : public Clock {
   public:
    OwnClock(const Clock& machine, const SimNet& net) : machine_(machine), net_(net) {}
    Time now() const override { return machine_.now() + net_.ahead(); }
    Duration running() const override { return machine_.running() + net_.ahead(); }

   private:
    const Clock& machine_;
    const SimNet& net_;
  };

  void connection_fault(const http::ConnectionFault& fault) override;
  // A loop and what it needs to run rounds.
  struct RunningLoop {
    http::Loop* loop;
    SimPoller* poller;
    std::unique_ptr<LoopDriver> driver;
  };

  // Drives the loop whose poller was made last.
  void drive(http::Loop& loop);
  std::shared_ptr<Generation> make_generation(const ServingSettings& settings);
  void stop_checks();
  void for_each_upstream(const std::function<void(const UpstreamState&)>& look) const;

  std::vector<std::string> faults_;
  SimNet net_;
  OwnClock clock_;
  OperationIds ids_{secret};
  Log log_;
  LineWriter access_;
  SeededRandom random_;
  SimSpool* const disk_;
  std::optional<Spool> spool_;
  GatewayShared shared_;
  std::vector<std::shared_ptr<Generation>> generations_;  // the newest is last
  std::unique_ptr<std::latch> adopted_;                   // for the newest; null: it is the first
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<SimService> service_;     // null: none
  std::vector<RunningLoop> running_loops_;  // those of workers, health checks and the service
  std::function<void()> look_;
  World& world_;
  bool draining_ = false;
  bool ended_ = false;
};

}  // namespace once::sim
