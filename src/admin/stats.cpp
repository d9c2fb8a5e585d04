#include "admin/stats.hpp"

#include <fmt/format.h>

#include "admin/json.hpp"
#include "admin/keys.hpp"
#include "admin/keys_json.hpp"
#include "base/text.hpp"
#include "store/exclusive.hpp"

namespace once::admin {

namespace {

constexpr double nanoseconds_per_millisecond = 1e6;
constexpr std::chrono::minutes latency_window{1};
// The window for current values, long enough for a rate.
constexpr std::chrono::seconds present_window{1};

std::optional<double> milliseconds(std::optional<double> nanoseconds) {
  if (!nanoseconds) return std::nullopt;
  return *nanoseconds / nanoseconds_per_millisecond;
}

void write_percentiles(Json& out, std::string_view name, const HistogramSnapshot& nanoseconds) {
  out.name(name).begin('{');
  out.member("p50", milliseconds(quantile(nanoseconds, 0.50)));
  out.member("p95", milliseconds(quantile(nanoseconds, 0.95)));
  out.member("p99", milliseconds(quantile(nanoseconds, 0.99)));
  out.end('}');
}

void write_results(Json& out, std::string_view name, const std::array<std::uint64_t, ending_count>& results) {
  out.name(name).begin('{');
  for (std::size_t ending = 0; ending < ending_count; ++ending) out.member(name_of(Ending(ending)), results[ending]);
  out.end('}');
}

// Writes one point of the charts.
void write_point(Json& out, const Window& window) {
  out.begin('{');
  out.member("at", window.until.time_since_epoch().count());
  out.name("per_second").begin('{');
  for (std::size_t ending = 0; ending < ending_count; ++ending) {
    out.member(name_of(Ending(ending)), static_cast<double>(window.results[ending]) / window.seconds);
  }
  out.end('}');
  out.member("hit_rate", window.hit_rate());
  out.member("takeovers_per_second", static_cast<double>(window.takeovers) / window.seconds);
  out.member("failures_per_second", static_cast<double>(window.failures) / window.seconds);
  write_percentiles(out, "latency_ms", window.latency_ns);
  out.member("in_flight", window.in_flight);
  out.member("batch_size", mean(window.batch_size));
  out.end('}');
}

struct ServersDown {
  std::size_t servers = 0;
  std::size_t upstreams = 0;  // upstreams with all servers down
};

ServersDown write_upstreams(Json& out, const Upstreams& upstreams) {
  ServersDown down;
  out.name("upstreams").begin('[');
  for (std::size_t i = 0; i < upstreams.size(); ++i) {
    const UpstreamState& upstream = upstreams[i];
    std::size_t up = 0;
    out.begin('{').member("name", upstream.settings.name);
    out.member("queued", upstream.queued.load(std::memory_order_relaxed)).name("servers").begin('[');
    for (const auto& server : upstream.servers) {
      const bool is_up = server->health.shown_up();
      up += is_up ? 1 : 0;
      out.begin('{').member("name", server->name).member("up", is_up);
      out.member("ejected", server->ejection.ejected());
      out.member("connections", server->connections.load(std::memory_order_relaxed)).end('}');
    }
    out.end(']').end('}');
    down.servers += upstream.servers.size() - up;
    down.upstreams += up == 0 ? 1 : 0;
  }
  out.end(']');
  return down;
}

void write_limits(Json& out, const std::vector<LimitUse>& limits) {
  out.name("limits").begin('[');
  for (const LimitUse& use : limits) {
    out.begin('{').member("name", use.name).member("used", use.used).member("limit", use.limit).end('}');
  }
  out.end(']');
}

void write_alerts(Json& out, const AlertFacts& facts) {
  out.name("alerts").begin('[');
  for (const Alert& alert : alerts_of(facts)) {
    out.begin('{').member("name", alert.name).member("severity", alert.severity).member("title", alert.title);
    out.member("state", name_of(alert.state)).member("detail", alert.detail).end('}');
  }
  out.end(']');
}

void write_keys(Json& out, const std::optional<SearchThread::Counts>& counts) {
  out.name("keys");
  if (!counts) {
    out.value(std::optional<double>());
    return;
  }
  out.begin('{');
  for (std::size_t i = 0; i < counts->size(); ++i) out.member(counted_name(i), counts->at(i));
  out.end('}');
}

void write_rates(Json& out, const Window& window) {
  out.name("rates").begin('{');
  out.member("window_seconds", window.seconds);
  out.member("keyed", window.keyed).member("executions", window.executions);
  out.member("hit_rate", window.hit_rate()).member("takeover_rate", window.takeover_rate());
  out.member("failure_rate", window.failure_rate()).member("unknown", window.of(Ending::unknown));
  out.end('}');
}

}  // namespace

Stats::Stats(const AdminSources& sources, bool needs_token, Instant now)
    : sources_(sources),
      probe_(sources.store),
      started_(now),
      started_at_(sources.clock.now()),
      needs_token_(needs_token) {
  history_.add(take_sample(sources_.gateway, sources_.store, now, started_at_));
}

void Stats::sample(Instant now) {
  // Do not probe a store that was handed over to a successor.
  const Exclusive* const exclusive = sources_.store.store().exclusive();
  if (exclusive == nullptr || !exclusive->handed_over()) probe_.ask(now);
  history_.add(take_sample(sources_.gateway, sources_.store, now, sources_.clock.now()));
}

StoreHealth Stats::store_health(Instant now) const {
  switch (sources_.store.store().condition()) {
    case StoreCondition::failed: return StoreHealth::failed;
    case StoreCondition::full: return StoreHealth::full;
    case StoreCondition::well: break;
  }
  switch (probe_.state(now)) {
    case StoreProbe::State::unknown: return StoreHealth::unasked;
    case StoreProbe::State::up: return StoreHealth::up;
    case StoreProbe::State::down: return StoreHealth::down;
  }
  return StoreHealth::unasked;
}

std::vector<LimitUse> Stats::limit_uses(const Sample& now) const {
  const Limits limits = sources_.gateway.generation()->settings.limits;
  std::vector<LimitUse> uses = {
      {.name = "limits.max_in_flight", .used = now.in_flight, .limit = limits.max_in_flight},
      {.name = "limits.max_connections", .used = now.connections, .limit = limits.max_connections},
      {.name = "limits.max_body_memory", .used = sources_.gateway.body_bytes(), .limit = limits.max_body_memory},
      {.name = "limits.max_spool", .used = sources_.gateway.spool().bytes(), .limit = limits.max_spool},
  };
  for (const StoreLimit& each : sources_.store.store().report().limits) {
    uses.push_back({.name = each.setting, .used = each.used, .limit = each.limit});
  }
  return uses;
}

std::string Stats::snapshot(Instant now, bool draining) const {
  const Sample current = take_sample(sources_.gateway, sources_.store, now, sources_.clock.now());
  const Window recent(history_.before(now, alert_window), current);
  const Window minute(history_.before(now, latency_window), current);
  const Window unknown(history_.before(now, unknown_window), current);
  const auto keys = sources_.keys.counts();
  const StoreHealth health = store_health(now);
  const std::vector<LimitUse> limits = limit_uses(current);
  Json out;
  out.begin('{').member("version", sources_.version).member("now", rfc3339(current.time));
  out.member("started_at", rfc3339(started_at_));
  out.member("uptime_seconds", std::chrono::floor<std::chrono::seconds>(now - started_).count());
  out.member("draining", draining).member("needs_token", needs_token_);
  write_results(out, "results", current.results);
  out.member("executions", current.executions).member("failures", current.failures);
  out.member("takeovers", current.takeovers);
  write_rates(out, recent);
  out.member("unknown_outcomes", unknown.unknown);
  write_keys(out, keys);
  write_percentiles(out, "latency_ms", minute.latency_ns);
  out.member("in_flight", current.in_flight).member("waiting", current.waiting);
  out.member("connections", current.connections).member("streams", sources_.gateway.live_streams().streams);
  out.name("store").begin('{').member("kind", sources_.store_kind).member("health", name_of(health));
  out.member("queue_depth", current.queue_depth).member("batch_size", mean(minute.batch_size));
  write_percentiles(out, "batch_ms", minute.batch_ns);
  out.end('}');
  const ServersDown down = write_upstreams(out, *sources_.gateway.generation()->upstreams);
  write_limits(out, limits);
  write_alerts(
      out, {.window = recent,
            .store = health,
            .limits = limits,
            .unknown_outcomes = unknown.unknown,
            .unknown_keys = keys ? std::optional((*keys)[static_cast<std::size_t>(State::unknown)] + (*keys)[lapsed_at])
                                 : std::nullopt,
            .servers_down = down.servers,
            .upstreams_down = down.upstreams});
  out.name("point");
  write_point(out, Window(history_.before(now, present_window), current));
  out.end('}');
  return out.take();
}

std::string Stats::history() const {
  Json out;
  out.begin('{').member("interval_ms", History::interval.count()).name("points").begin('[');
  const Sample* previous = nullptr;
  for (const Sample& sample : history_.samples()) {
    if (previous != nullptr && sample.at > previous->at) write_point(out, Window(*previous, sample));
    previous = &sample;
  }
  out.end(']').end('}');
  return out.take();
}

std::string EventStream::next() {
  const Instant now = monotonic_now();
  if (!allowed_(now)) return {};
  std::string event;
  if (!begun_) event = fmt::format("retry: 2000\nevent: history\ndata: {}\n\n", stats_.history());
  begun_ = true;
  event += fmt::format("event: stats\ndata: {}\n\n", stats_.snapshot(now, draining_.load(std::memory_order_relaxed)));
  return event;
}

}  // namespace once::admin
