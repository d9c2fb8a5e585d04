// The admin interface: /healthz, /readyz, /metrics and /v1/reload on an address and a thread of its own, so that it
// answers whatever the gateway's workers are doing.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "admin/keys.hpp"
#include "base/error.hpp"
#include "base/executor.hpp"
#include "base/task.hpp"
#include "claims/metrics.hpp"
#include "gateway/gateway.hpp"
#include "http/service.hpp"
#include "store/journal/journal_store.hpp"
#include "store/lane.hpp"
#include "store/memory/memory_store.hpp"
#include "store/server/server_store.hpp"

namespace once {

struct ReloadAnswer {
  std::vector<std::string> errors;  // any: nothing was changed
  std::vector<std::string> warnings;
};

// Somebody waits for a reload. Posted to `home` when it is answered.
struct ReloadRequest : Work {
  explicit ReloadRequest(Executor& the_home) : home(the_home) {}

  Executor& home;
  ReloadAnswer answer;
};

class ReloadPort {
 public:
  // From any thread. The request lives until it is posted.
  virtual void ask(ReloadRequest& request) = 0;

 protected:
  ~ReloadPort() = default;
};

// What may not be passed and a restart alone can change; 0: there is no such limit.
struct FixedLimits {
  std::size_t store_bytes = 0;
  std::size_t journal_disk_bytes = 0;
  std::size_t claims_connections = 0;
  std::size_t claims_waiting = 0;
};

struct AdminSources {
  const Gateway& gateway;
  ThreadLanes& store;
  // The kind of store it is; the others are null.
  const MemoryStore* memory = nullptr;
  const JournalStore* journal = nullptr;
  const ServerStore* server = nullptr;
  const ClaimsMetrics& claims;
  ReloadPort& reload;
  FixedLimits limits;
  std::string store_kind;  // as its URL begins
  KeysApi& keys;
  std::string version;
};

class Admin final : public http::ServiceHandler {
 public:
  Admin(std::string listen, const AdminSources& sources) : listen_(std::move(listen)), sources_(sources) {}
  Admin(const Admin&) = delete;
  Admin& operator=(const Admin&) = delete;

  // `inherited`: a socket that listens already.
  Result<void> start(const std::vector<int>& inherited) { return thread_.start(listen_, inherited); }
  const std::string& address() const { return thread_.address(); }
  int listening() const { return thread_.listening(); }
  // Another process listens on the same socket: it is left as it is.
  void hand_over() { thread_.hand_over(); }

  // readyz answers 503 from now on: load balancers send no more.
  void set_draining() { draining_.store(true, std::memory_order_relaxed); }

 private:
  Task<http::ServiceResponse> handle(const http::ServiceRequest& request) override;
  Task<http::ServiceResponse> readyz();
  Task<http::ServiceResponse> reload(const http::ServiceRequest& request);
  Task<http::ServiceResponse> keys(const http::ServiceRequest& request);

  std::string listen_;
  AdminSources sources_;
  std::atomic<bool> draining_ = false;
  http::ServiceThread thread_{*this};
};

}  // namespace once
