// GET /v1/stats and /v1/events: the state of this gateway as JSON. docs/operate/dashboard.md describes the members.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "admin/admin.hpp"
#include "admin/alerts.hpp"
#include "admin/samples.hpp"
#include "admin/store_probe.hpp"
#include "http/service.hpp"

namespace once::admin {

// Owned by the admin interface and used on its thread.
class Stats {
 public:
  static constexpr std::size_t most_listeners = 16;  // of /v1/events

  Stats(const AdminSources& sources, bool needs_token, Instant now);

  // Call every History::interval, and once at the start.
  void sample(Instant now);
  // `draining`: the gateway is about to stop.
  std::string snapshot(Instant now, bool draining) const;
  // The past intervals, oldest first: {"points": […]}
  std::string history() const;

  std::size_t listeners() const { return listeners_; }

 private:
  friend class EventStream;

  StoreHealth store_health(Instant now) const;
  std::vector<LimitUse> limit_uses(const Sample& now) const;

  const AdminSources& sources_;
  StoreProbe probe_;
  History history_;
  Instant started_;
  Time started_at_;
  std::size_t listeners_ = 0;
  bool needs_token_;
};

// Server-sent events: `history` once, then `stats` every second.
class EventStream final : public http::ServiceStream {
 public:
  // Ends when `allowed` returns false.
  EventStream(Stats& stats, const std::atomic<bool>& draining, std::function<bool(Instant)> allowed)
      : stats_(stats), draining_(draining), allowed_(std::move(allowed)) {
    ++stats_.listeners_;
  }
  ~EventStream() override { --stats_.listeners_; }

  std::string next() override;
  Duration pause() const override { return std::chrono::seconds(1); }

 private:
  Stats& stats_;
  const std::atomic<bool>& draining_;
  std::function<bool(Instant)> allowed_;
  bool begun_ = false;
};

}  // namespace once::admin
