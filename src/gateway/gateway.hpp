// The gateway as a whole: one worker a core, each with its own listener on the same address.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/offload_threads.hpp"
#include "core/operation.hpp"
#include "gateway/generation.hpp"
#include "gateway/metrics.hpp"
#include "gateway/settings.hpp"
#include "gateway/worker.hpp"
#include "http/fault_log.hpp"
#include "store/lane.hpp"
#include "store/waiters.hpp"

namespace once::gateway {

struct GatewaySettings {
  std::string listen;              // or off; serving.tls.listen likewise
  std::vector<int> inherited;      // sockets that listen already, instead
  std::vector<int> inherited_tls;  // the same for TLS
  unsigned threads = 1;
  std::string_view secret;
  std::string errors_base;
  ServingSettings serving;
};

struct GatewayPorts {
  Lanes& store;
  Waiters& waiters;  // told of ends in other gateways, too, so it outlives the store
  const Clock& clock;
  const Log& log;
  LineWriter& access;
};

class Gateway {
 public:
  Gateway(const GatewaySettings& settings, const GatewayPorts& ports);
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;
  ~Gateway();

  // Resolves, listens and starts the threads.
  Result<void> start();
  // Where it really listens, for addresses with port 0; empty: off.
  const std::string& address() const { return address_; }
  const std::string& tls_address() const { return tls_address_; }
  // The sockets it listens on, until drain(): for a process that is to take over.
  const std::vector<int>& listening() const { return listening_; }
  const std::vector<int>& tls_listening() const { return tls_listening_; }

  // From now on requests are served by these settings; those at work end by the ones they began with. An error changes
  // nothing. One thread at a time.
  Result<void> reload(const ServingSettings& settings);
  // Ends generations that no request needs any more; to be called now and then by the thread that reloads.
  void reap();

  // From any thread. Running requests get until the limit.
  void drain(const Drain& how);

  // Takes no more connections in, which wait in the sockets, and closes those that idle for `idle_grace`; requests at
  // work go on. Until resume() or drain().
  void pause(const Drain& how);
  void resume();
  // Returns when every worker has been in its loop since the call: what they had in hand before is done with.
  void wait_for_turns();

  // Of the workers.
  std::vector<http::Loop*> loops() const;

  enum class Ended : std::uint8_t { clean, cut_off };
  // Waits for the end after drain(). cut_off: requests were still at work, or outcomes that the store did not take, and
  // what they hold is left as it is.
  Ended join();

  // While paused or draining: requests are at work, or may yet come, that need the store.
  bool needs_store() const;

  // How often connections have given back the memory that they held, since the start.
  std::uint64_t rested() const;

  std::vector<const Metrics*> metrics() const;
  // What was counted of each route, by its label, over all workers.
  std::map<std::string, RouteTotals> routes() const;
  // How long the keyed request has been at work that is at work the longest.
  std::chrono::nanoseconds oldest_at_work() const;
  // By which new requests are served. From any thread, after start().
  std::shared_ptr<const Generation> generation() const;
  std::size_t body_bytes() const { return shared_.usage.body_bytes.load(std::memory_order_relaxed); }
  std::size_t body_bytes(HeldFor what) const {
    return shared_.usage.bytes_held_for[static_cast<std::size_t>(what)].load(std::memory_order_relaxed);
  }
  // Bodies on disk.
  const Spool& spool() const { return spool_; }
  // Of limits.max_body_memory, for the service beside the gateway. False: there is no more, and that is counted.
  bool take_memory(HeldFor what, std::size_t bytes);
  void give_back_memory(HeldFor what, std::size_t bytes) { shared_.usage.give_back(what, bytes); }
  // What that service adds to what the workers count. Of its thread.
  Metrics& beside() { return beside_; }
  // Of all connections, also those of services beside the gateway that tell it.
  http::FaultLog& faults() const { return faults_; }
  std::size_t callers() const { return shared_.quotas->callers.size(); }
  LiveStreams::Counts live_streams() const { return shared_.streams.counts(); }
  // From any thread, as are the next two.
  std::vector<StreamInfo> streams() const { return shared_.streams.snapshot(); }
  std::optional<StreamInfo> stream(const OperationId& id);
  // An operator has ended it in the store: its readers here are cut off at once.
  void stop_stream(const OperationId& id) { shared_.streams.stop(id); }
  std::uint64_t access_lines_left_out() const { return shared_.access.left_out(); }

 private:
  void serve_by(std::shared_ptr<Generation> generation);

  GatewaySettings settings_;
  OperationIds ids_;
  mutable http::FaultLog faults_;
  SystemSpoolDisk spool_disk_;
  Spool spool_;
  GatewayShared shared_;
  Metrics beside_;
  std::vector<std::shared_ptr<Generation>> generations_;  // the newest is last
  mutable std::mutex newest_mutex_;
  std::shared_ptr<const Generation> newest_;
  std::string address_;
  std::string tls_address_;
  std::vector<int> listening_;
  std::vector<int> tls_listening_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::jthread> threads_;
  // Last: they wake the workers. A disk that hangs holds up the spool alone.
  OffloadThreads body_threads_;
  OffloadThreads spool_threads_;
};

}  // namespace once::gateway
