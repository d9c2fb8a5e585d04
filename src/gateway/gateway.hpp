// The gateway as a whole: one worker a core, each with its own listener on the same address.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "core/operation.hpp"
#include "gateway/metrics.hpp"
#include "gateway/routes.hpp"
#include "gateway/settings.hpp"
#include "gateway/waiters.hpp"
#include "gateway/worker.hpp"
#include "store/lane.hpp"

namespace once {

struct GatewaySettings {
  std::string listen;
  unsigned threads = 1;
  std::string_view secret;
  std::vector<Upstream> upstreams;
  std::vector<Route> routes;
  Limits limits;
  ClientTimeouts timeouts;
  PoolSettings pool;
  std::string errors_base;
};

struct GatewayPorts {
  Lanes& store;
  Waiters& waiters;  // told of ends in other gateways, too, so it outlives the store
  const Clock& clock;
  const Log& log;
  const Log* access_log;
};

class Gateway {
 public:
  Gateway(const GatewaySettings& settings, const GatewayPorts& ports);
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;
  ~Gateway();

  // Resolves, listens and starts the threads.
  Result<void> start();
  // Where it really listens, for addresses with port 0.
  const std::string& address() const { return address_; }

  // From any thread. Running requests get until the limit.
  void drain(Duration limit);

  enum class Ended : std::uint8_t { clean, cut_off };
  // Waits for the end after drain(). cut_off: requests were still at work, or outcomes that the store did not take, and
  // what they hold is left as it is.
  Ended join();

  std::vector<const Metrics*> metrics() const;

 private:
  GatewaySettings settings_;
  OperationIds ids_;
  Routes routes_;
  std::vector<std::vector<http::Endpoint>> endpoints_;
  GatewayShared shared_;
  std::string address_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::jthread> threads_;
};

}  // namespace once
