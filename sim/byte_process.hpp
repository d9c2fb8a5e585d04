// One run of a gateway at the byte layer: the production workers on the simulated network, with a store in virtual time
// and their own clients. Anything left behind after a crash or at the end is a violation.
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "sim/byte_backend.hpp"
#include "sim/byte_client.hpp"
#include "sim/gateway_process.hpp"
#include "sim/lanes.hpp"
#include "sim/process.hpp"
#include "sim/sim_gateway.hpp"
#include "store/waiters.hpp"

namespace once::sim {

class ByteProcess final : public GatewayProcess {
 public:
  struct Parts {
    World& world;
    History& history;
    const Setup& setup;
    Store& store;
    NetworkStore* network_to_store;  // null for a store on the gateway's own disk
    SkewedClock& clock;
    std::vector<Policy> routes;
    Network& network;
    ByteBackend& backend;
    std::uint8_t number;  // of the gateway
  };
  ByteProcess(const Parts& parts, std::uint64_t seed);
  ~ByteProcess() override;
  ByteProcess(const ByteProcess&) = delete;
  ByteProcess& operator=(const ByteProcess&) = delete;

  void ask(const Asked& asked, std::function<void(const Answer&)> answered) override;
  void stop(const Asked& asked) override;
  Operators& operators() override { return operators_; }
  std::size_t counted_for(const TenantTag& caller) override;
  void die() override;
  void pause(Duration length) override;
  void heal() override;
  void wind_down() override;
  void has_wound_down() override;

 private:
  ServingSettings settings() const;
  struct Named {
    OperationId id;
    Fingerprint fingerprint;
  };
  Named name_of(const Asked& asked) const;
  void tap();
  NetFault draw_fault(NetCall call);
  void expect_strangers();
  void expect_evaders();
  void expect_reloads();
  void reload();
  void follow_half_written();
  void check_abandoned(std::uint64_t link);
  void look();
  void check_left_over(std::string_view when);
  void report(const Asked& asked, const Message& response, ByteClients::Form form,
              const std::function<void(const Answer&)>& answered);
  void report_part(const Asked& asked, const Message& response, const std::function<void(const Answer&)>& answered);

  Parts parts_;
  ProcessExecutor executor_;  // for its operators; also identifies the process in the model
  SimLanes lanes_;
  Waiters waiters_;
  Operators operators_;
  bool healed_ = false;
  SimSpool spool_;
  SimGateway gateway_;
  ByteClients clients_;
  ByteClients operators_clients_;         // clients of the operators' service
  std::set<std::uint64_t> from_clients_;  // connections of clients
  std::size_t faults_reported_ = 0;
  bool memory_reported_ = false;
  bool alive_ = true;
};

}  // namespace once::sim
