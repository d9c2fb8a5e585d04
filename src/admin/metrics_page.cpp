#include "admin/metrics_page.hpp"

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "admin/admin.hpp"
#include "admin/exposition.hpp"
#include "admin/process_metrics.hpp"
#include "admin/store_metrics.hpp"

namespace once::admin {

namespace {

// The sum of one counter over all workers.
std::uint64_t total(const std::vector<const Metrics*>& workers, Counter Metrics::* counter) {
  std::uint64_t sum = 0;
  for (const Metrics* metrics : workers) sum += (metrics->*counter).value();
  return sum;
}

// Writes one counter per value of an enum.
template <class Kind, std::size_t Size>
void write_by_kind(Exposition& out, std::string_view label, const std::vector<const Metrics*>& workers,
                   std::array<Counter, Size> Metrics::* counters) {
  for (std::size_t kind = 0; kind < Size; ++kind) {
    std::uint64_t sum = 0;
    for (const Metrics* metrics : workers) sum += (metrics->*counters)[kind].value();
    out.sample(fmt::format("{}=\"{}\"", label, name_of(static_cast<Kind>(kind))), sum);
  }
}

// The labels are patterns of the configuration, never a request's path.
void write_routes(Exposition& out, const std::map<std::string, RouteTotals>& routes) {
  const auto each_kind = [&](std::string_view label, auto name, const auto totals) {
    for (const auto& [route, counts] : routes) {
      const auto& values = counts.*totals;
      for (std::size_t kind = 0; kind < values.size(); ++kind) {
        out.sample(fmt::format("route=\"{}\",{}=\"{}\"", label_value(route), label, name(kind)), values[kind]);
      }
    }
  };
  const auto each_route = [&](std::uint64_t RouteTotals::* total) {
    for (const auto& [route, counts] : routes) {
      out.sample(fmt::format("route=\"{}\"", label_value(route)), counts.*total);
    }
  };
  out.family("once_requests_total", "counter", "Requests by route and result.");
  each_kind("result", [](std::size_t kind) { return name_of(Ending(kind)); }, &RouteTotals::requests);
  out.family("once_outcomes_total", "counter", "Executions by route and recorded outcome.");
  each_kind("outcome", [](std::size_t kind) { return name_of(ClaimEnd(kind)); }, &RouteTotals::outcomes);
  out.family("once_takeovers_total", "counter", "Executions after an attempt with an unknown outcome, by route.");
  each_route(&RouteTotals::takeovers);
  out.family("once_retries_after_failure_total", "counter", "Executions after a failed attempt, by route.");
  each_route(&RouteTotals::retries_after_failure);
}

void write_requests(Exposition& out, const std::vector<const Metrics*>& workers) {
  out.family("once_responses_total", "counter", "Responses sent to clients, by status class.");
  for (std::size_t status_class = 1; status_class <= 5; ++status_class) {
    std::uint64_t sum = 0;
    for (const Metrics* metrics : workers) sum += metrics->responses[status_class].value();
    out.sample(fmt::format("class=\"{}xx\"", status_class), sum);
  }
  out.family("once_request_duration_seconds", "histogram",
             "Time from the first byte of a request to the last byte of its response.");
  for (std::size_t ending = 0; ending < ending_count; ++ending) {
    HistogramSnapshot sum;
    for (const Metrics* metrics : workers) {
      sum.merge(metrics->duration_ns[ending].snapshot());
    }
    out.histogram(fmt::format("result=\"{}\"", name_of(Ending(ending))), sum, nanoseconds_per_second);
  }
}

void write_counters(Exposition& out, const std::vector<const Metrics*>& workers) {
  struct Row {
    std::string_view name;
    std::string_view type;
    std::string_view help;
    Counter Metrics::* counter;
  };
  static constexpr std::array rows = {
      Row{"once_in_flight", "gauge", "Keyed requests in progress, including waiting ones.", &Metrics::in_flight},
      Row{"once_waiting", "gauge", "Requests waiting for the outcome of another request.", &Metrics::waiting},
      Row{"once_leases_renewed_total", "counter", "Leases renewed while the backend was working.",
          &Metrics::leases_renewed},
      Row{"once_lease_renewals_failed_total", "counter", "Lease renewals that the store did not answer.",
          &Metrics::renewals_failed},
      Row{"once_lease_renewals_lost_total", "counter", "Lease renewals that found the claim lost.",
          &Metrics::renewals_lost},
      Row{"once_claims_lost_total", "counter", "Owners that found their claim lost when they recorded or released it.",
          &Metrics::claims_lost},
      Row{"once_backend_committed_total", "counter",
          "Outcomes that the backend recorded in its own transaction and that differ from its response.",
          &Metrics::committed_by_backend},
      Row{"once_store_errors_total", "counter", "Store operations that failed.", &Metrics::store_errors},
      Row{"once_store_full_total", "counter", "Store operations refused because the store was full.",
          &Metrics::store_full},
      Row{"once_record_retries_total", "counter", "Repeated attempts to record an outcome.", &Metrics::record_retries},
      Row{"once_bodies_dropped_total", "counter", "Responses recorded without their body because there was no memory.",
          &Metrics::bodies_dropped},
      Row{"once_streams_total", "counter", "Responses recorded as they streamed.", &Metrics::streams_begun},
      Row{"once_streams_cut_total", "counter", "Streams that broke off: their outcome is unknown.",
          &Metrics::streams_cut},
      Row{"once_streams_stopped_total", "counter",
          "Streams that were stopped before their end, by their caller or an operator.", &Metrics::streams_stopped},
      Row{"once_stream_chunks_total", "counter", "Chunks of streams written to the store.", &Metrics::stream_chunks},
      Row{"once_stream_bytes_total", "counter", "Bytes of streams written to the store.", &Metrics::stream_bytes},
      Row{"once_unsettled", "gauge", "Outcomes and releases waiting to be written to the store.", &Metrics::unsettled},
      Row{"once_connections_open", "gauge", "Client connections.", &Metrics::connections_open},
      Row{"once_connections_total", "counter", "Client connections accepted.", &Metrics::connections_opened},
      Row{"once_connections_refused_total", "counter", "Client connections refused because of a limit.",
          &Metrics::connections_refused},
      Row{"once_tls_handshakes_total", "counter", "TLS handshakes with clients that succeeded.",
          &Metrics::tls_handshakes},
      Row{"once_tls_handshakes_failed_total", "counter", "TLS handshakes with clients that failed.",
          &Metrics::tls_handshakes_failed},
      Row{"once_connections_displaced_total", "counter", "Idle or slow client connections closed to make room.",
          &Metrics::connections_displaced},
      Row{"once_slow_clients_total", "counter", "Clients disconnected because they sent or read too slowly.",
          &Metrics::slow_clients},
      Row{"once_backend_connects_total", "counter", "Connections opened to backends.", &Metrics::backend_connects},
      Row{"once_backend_connect_failures_total", "counter", "Connections to backends that failed.",
          &Metrics::backend_connect_failures},
      Row{"once_keyed_without_caller_total", "counter", "Keyed requests without a caller; they share one caller.",
          &Metrics::without_caller},
      Row{"once_tokens_verified_total", "counter", "Tokens verified by their signature.", &Metrics::tokens_verified},
      Row{"once_tokens_remembered_total", "counter", "Tokens found in the cache.", &Metrics::tokens_remembered},
      Row{"once_tokens_refused_total", "counter", "Tokens refused as invalid.", &Metrics::tokens_refused},
      Row{"once_not_modified_total", "counter", "304 responses for an ETag from Once.", &Metrics::not_modified},
      Row{"once_preflights_total", "counter", "CORS preflights answered by Once.", &Metrics::preflights},
  };
  for (const Row& row : rows) out.single(row.name, row.type, row.help, total(workers, row.counter));
  out.family("once_proxy_protocol_refused_total", "counter",
             "Connections refused for a missing or untrusted PROXY header, by reason.");
  write_by_kind<ProxyRefusal>(out, "reason", workers, &Metrics::proxy_refused);
  out.family("once_preconditions_total", "counter", "Checks of preconditions on writes, by result.");
  write_by_kind<PreconditionResult>(out, "result", workers, &Metrics::preconditions);
}

void write_streams(Exposition& out, const Gateway& gateway) {
  const LiveStreams::Counts live = gateway.live_streams();
  out.single("once_streams_live", "gauge", "Responses that are being recorded as they stream.", live.streams);
  out.single("once_stream_readers", "gauge", "Requests that read one of these.", live.readers);
  out.single("once_stream_held_bytes", "gauge", "Memory used for the last part of each.", live.bytes);
  out.family(
      "once_stream_first_byte_seconds", "histogram",
      "Time from sending a request to the backend until the status and headers of the response were recorded and "
      "passed on to the client, for responses that are passed on before they are whole. The first byte of the body "
      "may come later.");
  HistogramSnapshot sum;
  for (const Metrics* metrics : gateway.metrics()) sum.merge(metrics->stream_first_byte_ns.snapshot());
  out.histogram("", sum, nanoseconds_per_second);
}

// The labels come from the configuration: upstream names, and server URLs, which contain no secrets.
void write_upstreams(Exposition& out, const Upstreams& upstreams) {
  const auto each_server = [&](std::string_view name, std::string_view help, auto value) {
    out.family(name, "gauge", help);
    for (std::size_t i = 0; i < upstreams.size(); ++i) {
      for (const auto& server : upstreams[i].servers) {
        out.sample(fmt::format("upstream=\"{}\",server=\"{}\"", upstreams[i].settings.name, label_value(server->name)),
                   std::uint64_t{value(*server)});
      }
    }
  };
  const auto each_upstream = [&](std::string_view name, std::string_view type, std::string_view help, auto value) {
    out.family(name, type, help);
    for (std::size_t i = 0; i < upstreams.size(); ++i) {
      out.sample(fmt::format("upstream=\"{}\"", upstreams[i].settings.name), std::uint64_t{value(upstreams[i])});
    }
  };
  each_server("once_upstream_up", "1 while a server is up, 0 while it is down.",
              [](const ServerState& server) { return server.health.shown_up() ? 1U : 0U; });
  each_server("once_upstream_ejected", "1 while a server is ejected because of failed requests.",
              [](const ServerState& server) { return server.ejection.ejected() ? 1U : 0U; });
  each_upstream("once_upstream_ejections_total", "counter", "Ejections of servers.", [](const auto& state) {
    std::uint64_t times = 0;
    for (const auto& server : state.servers) times += server->ejection.times();
    return times;
  });
  each_server("once_upstream_connections", "Connections to a server.",
              [](const ServerState& server) { return server.connections.load(std::memory_order_relaxed); });
  out.family("once_upstream_connections_limit", "gauge", "Limit of connections to a server, if there is one.");
  for (std::size_t i = 0; i < upstreams.size(); ++i) {
    const Upstream& settings = upstreams[i].settings;
    if (settings.max_connections == 0) continue;
    out.sample(fmt::format("upstream=\"{}\"", settings.name), std::uint64_t{settings.max_connections});
  }
  each_upstream("once_upstream_queue_limit", "gauge", "Limit of requests waiting for a connection.",
                [](const UpstreamState& state) { return state.settings.queue; });
  each_upstream("once_upstream_queued", "gauge", "Requests waiting for a connection.",
                [](const UpstreamState& state) { return state.queued.load(std::memory_order_relaxed); });
  each_upstream("once_upstream_retries_total", "counter", "Requests sent to a second server.",
                [](const UpstreamState& state) { return state.retries.load(std::memory_order_relaxed); });
  each_upstream("once_upstream_queue_refused_total", "counter", "Requests that got no connection in time.",
                [](const UpstreamState& state) { return state.queue_refused.load(std::memory_order_relaxed); });
}

void write_limits(Exposition& out, const Gateway& gateway) {
  const Limits& limits = gateway.generation()->settings.limits;
  out.single("once_connections_limit", "gauge", "Limit of client connections.", limits.max_connections);
  out.single("once_in_flight_limit", "gauge", "Limit of keyed requests in progress.", limits.max_in_flight);
  out.single("once_body_bytes_limit", "gauge", "Limit of memory for bodies.", limits.max_body_memory);
  out.single("once_callers_limit", "gauge", "Limit of callers that limits are counted for.", limits.caller.tracked);
  out.family("once_in_flight_oldest_seconds", "gauge", "Age of the oldest keyed request in progress.");
  out.sample("", std::chrono::duration<double>(gateway.oldest_at_work()).count());
  const std::vector<const Metrics*> workers = gateway.metrics();
  out.family("once_overloaded_total", "counter", "Keyed requests refused because of overload.");
  write_by_kind<Overload>(out, "limit", workers, &Metrics::overloaded);
  out.family("once_caller_limit_total", "counter",
             "Keyed requests refused because of a limit on their caller or "
             "address.");
  write_by_kind<CallerLimit>(out, "limit", workers, &Metrics::over_limit);
  out.family("once_malformed_responses_total", "counter", "Malformed responses from backends, by reason.");
  write_by_kind<http::ResponseFault>(out, "reason", workers, &Metrics::malformed_responses);
  out.family("once_shadow_total", "counter", "Requests in shadow mode, by verdict.");
  write_by_kind<Shadowed>(out, "verdict", workers, &Metrics::shadow);
  out.single("once_body_bytes", "gauge", "Memory used for bodies that are held as a whole.", gateway.body_bytes());
  out.family("once_held_bytes", "gauge", "Memory used for bodies, by purpose.");
  for (std::size_t what = 0; what < held_for_count; ++what) {
    out.sample(fmt::format("what=\"{}\"", name_of(HeldFor(what))), gateway.body_bytes(HeldFor(what)));
  }
  const Spool& spool = gateway.spool();
  out.single("once_spool_bytes", "gauge", "Disk space used for large requests.", spool.bytes());
  out.single("once_spool_bytes_limit", "gauge", "Limit of disk space for large requests.", limits.max_spool);
  out.single("once_spooled_requests_total", "counter", "Keyed requests too large for memory that were put on disk.",
             spool.files());
  out.single("once_spool_failures_total", "counter", "Failures of the disk for large requests.", spool.failures());
  out.single("once_access_lines_left_out_total", "counter", "Access log lines that were dropped.",
             gateway.access_lines_left_out());
  out.single("once_callers", "gauge", "Callers that limits are counted for.", gateway.callers());
}

void write_certificates(Exposition& out, const http::TlsServerContext* tls) {
  out.family("once_tls_certificate_expires_timestamp_seconds", "gauge", "Expiry time of a server certificate.");
  if (tls == nullptr) return;
  for (const auto& certificate : tls->certificates()) {
    const auto expires = static_cast<std::uint64_t>(certificate.expires.time_since_epoch().count());
    out.sample(fmt::format("file=\"{}\"", label_value(certificate.file)), expires);
  }
}

void write_claims_by_scope(Exposition& out, const MetricsByScope& by_scope) {
  const auto each_scope = [&](std::string_view name, std::string_view help, auto&& write) {
    out.family(name, "counter", help);
    by_scope.for_each([&](std::string_view tenant, std::string_view scope, const ScopeMetrics& metrics) {
      write(fmt::format("tenant=\"{}\",scope=\"{}\"", label_value(tenant), label_value(scope)), metrics);
    });
  };
  each_scope("once_claims_scope_requests_total", "Claims, by tenant, scope and result.",
             [&](const std::string& labels, const ScopeMetrics& metrics) {
               for (const ClaimsResult result : results_of(ClaimsVerb::claim)) {
                 const std::uint64_t count = metrics.claims[static_cast<std::size_t>(result)].value();
                 if (count > 0) out.sample(fmt::format("{},result=\"{}\"", labels, name_of(result)), count);
               }
             });
  each_scope(
      "once_claims_scope_takeovers_total",
      "Claims acquired after an attempt with an unknown outcome, by tenant and scope.",
      [&](const std::string& labels, const ScopeMetrics& metrics) { out.sample(labels, metrics.takeovers.value()); });
  each_scope("once_claims_scope_retries_after_failure_total",
             "Claims acquired after an attempt that failed, by tenant and scope.",
             [&](const std::string& labels, const ScopeMetrics& metrics) {
               out.sample(labels, metrics.retries_after_failure.value());
             });
}

void write_claims(Exposition& out, const ClaimsMetrics& metrics, const FixedLimits& limits) {
  out.single("once_claims_connections_limit", "gauge", "Limit of connections to the claims API.",
             limits.claims_connections);
  out.single("once_claims_waiting_limit", "gauge", "Limit of concurrent long polls.", limits.claims_waiting);
  out.family("once_claims_requests_total", "counter", "Requests to the claims API, by verb and result.");
  for (std::size_t verb = 0; verb < claims_verb_count; ++verb) {
    for (const ClaimsResult result : results_of(ClaimsVerb(verb))) {
      out.sample(fmt::format("verb=\"{}\",result=\"{}\"", name_of(ClaimsVerb(verb)), name_of(result)),
                 metrics.requests[verb][static_cast<std::size_t>(result)].value());
    }
  }
  out.single("once_claims_takeovers_total", "counter", "Claims acquired after an attempt with an unknown outcome.",
             metrics.takeovers.value());
  out.single("once_claims_retries_after_failure_total", "counter", "Claims acquired after an attempt that failed.",
             metrics.retries_after_failure.value());
  write_claims_by_scope(out, metrics.by_scope);
  out.single("once_claims_waiting", "gauge", "Long polls at the claims API.", metrics.waiting.value());
  out.single("once_claims_waits_refused_total", "counter", "Long polls over claims.max_waiting, answered at once.",
             metrics.waits_refused.value());
  out.single("once_claims_connections_open", "gauge", "Connections to the claims API.",
             metrics.connections_open.value());
  out.single("once_claims_connections_refused_total", "counter", "Connections over claims.max_connections.",
             metrics.connections_refused.value());
  out.single("once_claims_connections_displaced_total", "counter",
             "Connections without a running request, closed to make room for new ones.",
             metrics.connections_displaced.value());
  out.single("once_claims_bodies_refused_total", "counter", "Requests over claims.max_body.",
             metrics.bodies_refused.value());
  out.single("once_claims_progress_refused_total", "counter", "Pieces of progress over the limit of a claim.",
             metrics.progress_refused.value());
}

void write_descriptors(Exposition& out, const http::FaultLog& faults) {
  out.family("once_out_of_descriptors_total", "counter", "Failures for lack of file descriptors, by purpose.");
  for (std::size_t use = 0; use < http::descriptor_use_count; ++use) {
    const auto what = static_cast<http::DescriptorUse>(use);
    out.sample(fmt::format("for=\"{}\"", name_of(what)), faults.out_of_descriptors(what));
  }
}

// Written only after keys were counted for the first time.
void write_keys(Exposition& out, const KeysApi& keys) {
  out.family("once_keys", "gauge", "Keys in the store by state, counted periodically.");
  const auto counts = keys.counts();
  if (!counts) return;
  for (std::size_t i = 0; i < counts->size(); ++i) {
    out.sample(fmt::format("state=\"{}\"", counted_name(i)), (*counts)[i]);
  }
}

}  // namespace

void write_request_metrics(Exposition& out, const std::map<std::string, RouteTotals>& routes,
                           const std::vector<const Metrics*>& workers) {
  write_routes(out, routes);
  write_requests(out, workers);
  write_counters(out, workers);
}

std::string metrics_page(const AdminSources& sources) {
  Exposition out;
  const std::shared_ptr<const Generation> generation = sources.gateway.generation();
  const std::vector<const Metrics*> workers = sources.gateway.metrics();
  out.family("once_build_info", "gauge", "Always 1; the labels describe the build.");
  out.sample(fmt::format("version=\"{}\",compiler=\"{}\",store=\"{}\"", sources.version, label_value(__VERSION__),
                         sources.store_kind),
             std::uint64_t{1});
  write_process_metrics(out, sources.started_at);
  write_request_metrics(out, sources.gateway.routes(), workers);
  out.single("once_connection_faults_total", "counter",
             "Connections ended because an invariant of Once was broken: a bug.", sources.gateway.faults().count());
  write_descriptors(out, sources.gateway.faults());
  write_upstreams(out, *generation->upstreams);
  write_certificates(out, generation->tls.get());
  write_limits(out, sources.gateway);
  write_streams(out, sources.gateway);
  write_claims(out, sources.claims, sources.limits);
  write_store_metrics(out, sources.store);
  write_keys(out, sources.keys);
  return out.take();
}

}  // namespace once::admin
