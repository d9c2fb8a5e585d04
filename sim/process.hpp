// One run of a gateway: the production exchange, waiters and lanes, with its own event loop, clock and randomness.
#pragma once

#include <algorithm>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "core/operation.hpp"
#include "gateway/exchange/exchange.hpp"
#include "gateway/identity/routes.hpp"
#include "gateway/settings.hpp"
#include "sim/backend.hpp"
#include "sim/gateway_process.hpp"
#include "sim/history.hpp"
#include "sim/lanes.hpp"
#include "sim/operators.hpp"
#include "sim/random.hpp"
#include "sim/setup.hpp"
#include "sim/streams.hpp"
#include "sim/world.hpp"

namespace once::sim {

// A machine's clock: the world's time with an offset.
class SkewedClock final : public Clock {
 public:
  SkewedClock(const World& world, Duration ahead) : world_(world), ahead_(ahead) {}
  Time now() const override { return world_.now() + ahead_; }
  Duration running() const override { return world_.now().time_since_epoch(); }
  void jump(Duration by) {
    ahead_ += by;
    furthest_ = std::max(furthest_, ahead_);
  }
  // Restores the largest offset that it ever had, so that it shows no time again that it has already shown.
  void set_right() { ahead_ = furthest_; }

 private:
  const World& world_;
  Duration ahead_;
  Duration furthest_ = ahead_;
};

class Process final : public GatewayProcess {
 public:
  struct Parts {
    World& world;
    History& history;
    const Setup& setup;
    Store& store;
    NetworkStore* network;
    SqlServer* database;  // the backends' own transactions
    SkewedClock& clock;
    std::vector<Policy> routes;
  };
  Process(const Parts& parts, std::uint64_t seed);
  ~Process() override;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void ask(const Asked& asked, std::function<void(const Answer&)> answered) override;
  // The route that an operation belongs to.
  const Policy& policy_of(const Asked& asked) const { return parts_.routes[asked.operation % parts_.routes.size()]; }

  Operators& operators() override { return operators_; }
  Streams* streams() override { return &streams_; }
  Guards* guards() override { return &guards_; }

  void die() override;
  bool alive() const { return alive_; }
  void pause(Duration length) override { executor_.pause(length); }
  void heal() override { backend_.heal(); }

 private:
  class Call;

  Parts parts_;
  SeededRandom random_;
  Log log_;
  Metrics metrics_;
  Waiters waiters_;
  Executions executions_;
  ProcessExecutor executor_;
  SimLanes lanes_;
  SimBackend backend_;
  Operators operators_;
  Streams streams_;
  Guards guards_;
  const ServingSettings settings_;
  const Routes routes_{{}, {}};  // unused: a call already has its policy
  const OperationIds ids_{"the secret of the simulation"};
  std::list<Call> calls_;
  bool alive_ = true;
};

}  // namespace once::sim
