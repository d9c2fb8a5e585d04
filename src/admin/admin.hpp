// The admin interface: /healthz, /readyz and /metrics on an address and a thread of its own, so that it answers
// whatever the gateway's workers are doing.
#pragma once

#include <atomic>
#include <string>

#include "base/error.hpp"
#include "base/task.hpp"
#include "claims/metrics.hpp"
#include "gateway/gateway.hpp"
#include "http/service.hpp"
#include "store/journal/journal_store.hpp"
#include "store/lane.hpp"
#include "store/memory/memory_store.hpp"
#include "store/server/server_store.hpp"

namespace once {

struct AdminSources {
  const Gateway& gateway;
  ThreadLanes& store;
  // The kind of store it is; the others are null.
  const MemoryStore* memory = nullptr;
  const JournalStore* journal = nullptr;
  const ServerStore* server = nullptr;
  const ClaimsMetrics& claims;
  std::string version;
};

class Admin final : public http::ServiceHandler {
 public:
  Admin(std::string listen, const AdminSources& sources) : listen_(std::move(listen)), sources_(sources) {}
  Admin(const Admin&) = delete;
  Admin& operator=(const Admin&) = delete;

  Result<void> start() { return thread_.start(listen_); }
  const std::string& address() const { return thread_.address(); }

  // readyz answers 503 from now on: load balancers send no more.
  void set_draining() { draining_.store(true, std::memory_order_relaxed); }

 private:
  Task<http::ServiceResponse> handle(const http::ServiceRequest& request) override;
  Task<http::ServiceResponse> readyz();
  std::string metrics() const;

  std::string listen_;
  AdminSources sources_;
  std::atomic<bool> draining_ = false;
  http::ServiceThread thread_{*this};
};

}  // namespace once
