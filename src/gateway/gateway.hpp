// The gateway as a whole: one worker per thread (the setting `threads`), each with its own listeners.
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
  std::string listen;              // an address or "off"; serving.tls.listen likewise
  std::vector<int> inherited;      // listening sockets to use instead
  std::vector<int> inherited_tls;  // the same for TLS
  unsigned threads = 1;
  std::string_view secret;
  std::string errors_base;
  ServingSettings serving;
};

struct GatewayPorts {
  Lanes& store;
  Waiters& waiters;  // notified of operations that end in other gateways too, so it outlives the store
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
  // The actual listen address, also for port 0; empty: off.
  const std::string& address() const { return address_; }
  const std::string& tls_address() const { return tls_address_; }
  // The listening sockets, until drain(): for a process that takes over.
  const std::vector<int>& listening() const { return listening_; }
  const std::vector<int>& tls_listening() const { return tls_listening_; }

  // Serves new requests with these settings; requests in progress keep the ones they began with. An error changes
  // nothing. One thread at a time.
  Result<void> reload(const ServingSettings& settings);
  // Destroys generations that no request uses any more. Call it regularly from the thread that reloads.
  void reap();

  // Thread-safe. Requests in progress may take until the limit.
  void drain(const Drain& how);

  // Accepts no more connections, which wait in the listening sockets, and closes those that are idle for `idle_grace`.
  // Requests in progress continue. Until resume() or drain().
  void pause(const Drain& how);
  void resume();
  // Returns when every worker has passed through its loop since the call: everything that was ready before has been
  // handled.
  void wait_for_turns();

  // The workers' loops.
  std::vector<http::Loop*> loops() const;

  enum class Ended : std::uint8_t { clean, cut_off };
  // Waits for the end after drain(). cut_off: requests were still in progress, or outcomes were not accepted by the
  // store; what they use is not freed.
  Ended join();

  // While paused or draining: whether requests that are in progress, or may still begin, need the store.
  bool needs_store() const;

  // How many times idle connections have released their memory since the start.
  std::uint64_t idle_releases() const;

  std::vector<const Metrics*> metrics() const;
  // Counts per route label, summed over all workers.
  std::map<std::string, RouteTotals> routes() const;
  // The age of the oldest keyed request in progress.
  std::chrono::nanoseconds oldest_at_work() const;
  // The generation that serves new requests. Thread-safe after start().
  std::shared_ptr<const Generation> generation() const;
  std::size_t body_bytes() const { return shared_.usage.body_bytes.load(std::memory_order_relaxed); }
  std::size_t body_bytes(HeldFor what) const {
    return shared_.usage.bytes_held_for[static_cast<std::size_t>(what)].load(std::memory_order_relaxed);
  }
  // Request bodies on disk.
  const Spool& spool() const { return spool_; }
  // Reserves memory under limits.max_body_memory for the claims API and other services of the process. If none is
  // left, that is counted.
  Reserved take_memory(HeldFor what, std::size_t bytes);
  void give_back_memory(HeldFor what, std::size_t bytes) { shared_.usage.give_back(what, bytes); }
  // Metrics of those services, added to the workers'. Only for their thread.
  Metrics& beside() { return beside_; }
  // The fault log of all connections, including those of services that report to it.
  http::FaultLog& faults() const { return faults_; }
  std::size_t callers() const { return shared_.quotas->callers.size(); }
  LiveStreams::Counts live_streams() const { return shared_.streams.counts(); }
  // Thread-safe, like the next two.
  std::vector<StreamInfo> streams() const { return shared_.streams.snapshot(); }
  std::optional<StreamInfo> stream(const OperationId& id);
  // An operator has stopped the stream in the store: disconnects its readers here at once.
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
  // Declared last, so that they are destroyed first: their threads wake the workers. The spool has threads of its own,
  // so a hanging disk delays only the spool.
  OffloadThreads body_threads_;
  OffloadThreads spool_threads_;
};

}  // namespace once::gateway
