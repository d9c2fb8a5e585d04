// The admin interface: health, metrics, and the dashboard with its data. It has its own address and thread, so that it
// answers even if the gateway's workers are busy.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "admin/access.hpp"
#include "admin/keys.hpp"
#include "admin/readiness.hpp"
#include "admin/store_probe.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/executor.hpp"
#include "base/task.hpp"
#include "claims/metrics.hpp"
#include "gateway/gateway.hpp"
#include "http/service.hpp"
#include "store/lane.hpp"

namespace once::admin {

struct ReloadAnswer {
  std::vector<std::string> errors;  // if not empty, nothing was changed
  std::vector<std::string> warnings;
};

enum class ReloadKind : std::uint8_t {
  real,
  dry_run,  // reports the changes without making them
};

// A pending reload request. It is posted to `home` when it is answered.
struct ReloadRequest : Work {
  ReloadRequest(Executor& the_home, ReloadKind the_kind) : home(the_home), kind(the_kind) {}

  Executor& home;
  const ReloadKind kind;
  ReloadAnswer answer;
};

class ReloadPort {
 public:
  // Thread-safe. The request lives until it is posted.
  virtual void ask(ReloadRequest& request) = 0;

 protected:
  ~ReloadPort() = default;
};

// Limits that only a restart can change; 0: no limit.
struct FixedLimits {
  std::size_t claims_connections = 0;
  std::size_t claims_waiting = 0;
};

struct AdminSources {
  const Gateway& gateway;
  ThreadLanes& store;
  const ClaimsMetrics& claims;
  ReloadPort& reload;
  KeysApi& keys;
  const Clock& clock;
  const Log& log;
  FixedLimits limits;
  std::vector<ReadyCheck> ready_checks;
  Time started_at{};       // of the process
  std::string store_kind;  // the scheme of its URL
  std::string version;
};

class Stats;

class Admin final : public http::ServiceHandler {
 public:
  // `token` is required for everything except health; empty: none is required, and the interface listens on loopback
  // only.
  Admin(std::string listen, std::string_view token, const AdminSources& sources);
  Admin(const Admin&) = delete;
  Admin& operator=(const Admin&) = delete;
  ~Admin();

  // `inherited`: sockets that already listen.
  Result<void> start(const std::vector<int>& inherited);
  const std::string& address() const { return thread_.address(); }
  int listening() const { return thread_.listening(); }
  // Call if another process listens on the same Unix socket, so that its file is not removed.
  void hand_over() { thread_.hand_over(); }

  http::Loop& loop() { return thread_.loop(); }

  // From now on readyz answers 503, so that load balancers send no more requests.
  void set_draining() { draining_.store(true, std::memory_order_relaxed); }

 private:
  // Takes samples regularly on the thread.
  struct Sampler : Work, Timer {
    Admin* admin = nullptr;
  };

  // A path, its access rule, its methods and its handler. The table of routes (admin_routes.cpp) also defines the
  // responses to unknown paths and wrong methods, and GET /v1.
  struct Route {
    enum class Access : std::uint8_t {
      health,  // public, whatever else is wrong with the request
      open,    // public; contains no data
      data,    // requires permission: access.hpp
    };
    enum class Methods : std::uint8_t { read, change, both };
    enum class Match : std::uint8_t { exact, below };
    using Handler = Task<http::ServiceResponse> (Admin::*)(const http::ServiceRequest&);

    std::string_view path;
    Access access;
    Methods methods;
    Handler handler;
    std::string_view answer;  // a description for people
    Match match = Match::exact;

    bool takes(Method method) const;
  };
  static const std::vector<Route>& routes();
  // Null: unknown path.
  static const Route* route_of(std::string_view path);
  static http::ServiceResponse unknown_path();
  static http::ServiceResponse wrong_method(const Route& route);

  http::Admission admit(const http::ServiceRequest& request) override;
  Task<http::ServiceResponse> handle(const http::ServiceRequest& request) override;
  Task<http::ServiceResponse> answer(const http::ServiceRequest& request);
  Task<http::ServiceResponse> healthz(const http::ServiceRequest& request);
  Task<http::ServiceResponse> readyz(const http::ServiceRequest& request);
  Task<http::ServiceResponse> metrics(const http::ServiceRequest& request);
  Task<http::ServiceResponse> overview(const http::ServiceRequest& request);
  Task<http::ServiceResponse> stats(const http::ServiceRequest& request);
  Task<http::ServiceResponse> history(const http::ServiceRequest& request);
  Task<http::ServiceResponse> events(const http::ServiceRequest& request);
  Task<http::ServiceResponse> streams(const http::ServiceRequest& request);
  Task<http::ServiceResponse> keys(const http::ServiceRequest& request);
  Task<http::ServiceResponse> login(const http::ServiceRequest& request);
  Task<http::ServiceResponse> logout(const http::ServiceRequest& request);
  Task<http::ServiceResponse> reload(const http::ServiceRequest& request);
  // Checks the address before the first connection is accepted.
  Result<void> begin_at(std::string_view address);
  void sample();
  // Logs when the store stops answering, and when it answers again.
  void log_store_state(StoreProbe::State state);
  void log_checks(std::string_view wrong);

  std::string listen_;
  AdminSources sources_;
  AdminAccess access_;
  std::unique_ptr<Stats> stats_;
  StoreProbe store_probe_;
  Readiness readiness_;
  std::string_view wrong_;  // as last logged
  StoreProbe::State reported_ = StoreProbe::State::unknown;
  Sampler sampler_;
  std::atomic<bool> draining_ = false;
  http::ServiceThread thread_{*this, &sources_.gateway.faults()};
};

}  // namespace once::admin
