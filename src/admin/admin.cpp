#include "admin/admin.hpp"

#include <array>
#include <span>

#include <fmt/format.h>

#include "admin/exposition.hpp"
#include "core/problem.hpp"
#include "store/store.hpp"

namespace once {

using http::ServiceRequest;
using http::ServiceResponse;

namespace {

constexpr double nanoseconds_per_second = 1e9;

constexpr std::array all_endings = {Ending::passed,   Ending::executed, Ending::replayed, Ending::in_flight,
                                    Ending::mismatch, Ending::unknown,  Ending::bypassed, Ending::rejected};
static_assert(all_endings.size() == ending_count);

ServiceResponse problem_response(ProblemKind kind, std::string detail) {
  const Problem answer = problem(kind, std::move(detail));
  return {.status = answer.status, .content_type = "application/problem+json", .body = to_json(answer)};
}

ServiceResponse text(int status, std::string body) {
  return {.status = status, .body = std::move(body)};
}

// co_await: until the reload is done or refused.
struct Reload : ReloadRequest {
  Reload(ReloadPort& the_port, Executor& the_home) : ReloadRequest(the_home), port(the_port) {}

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> the_caller) {
    caller = the_caller;
    run = [](Work& work) { static_cast<Reload&>(work).caller.resume(); };
    port.ask(*this);
  }
  void await_resume() const noexcept {}

  ReloadPort& port;
  std::coroutine_handle<> caller;
};

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address.starts_with("[::1]");
}

// In Host, by name or number.
bool names_loopback(std::string_view host) {
  const std::string_view name = host.substr(0, host.starts_with('[') ? host.find(']') + 1 : host.find(':'));
  return name == "localhost" || name == "127.0.0.1" || name == "[::1]";
}

std::string lines_of(const std::vector<std::string>& lines, std::string_view first) {
  std::string text(first);
  for (const std::string& line : lines) text.append(line).append("\n");
  return text;
}

// As the text format wants it: a path may hold anything.
std::string label_value(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped.push_back('\\');
    escaped.push_back(c);
  }
  return escaped;
}

// The sum of one counter over all workers.
std::uint64_t total(const std::vector<const Metrics*>& workers, Counter Metrics::* counter) {
  std::uint64_t sum = 0;
  for (const Metrics* metrics : workers) sum += (metrics->*counter).value();
  return sum;
}

void write_requests(Exposition& out, const std::vector<const Metrics*>& workers) {
  out.family("once_requests_total", "counter", "Requests by how they ended.");
  for (const Ending ending : all_endings) {
    std::uint64_t sum = 0;
    for (const Metrics* metrics : workers) sum += metrics->requests[static_cast<std::size_t>(ending)].value();
    out.sample(fmt::format("result=\"{}\"", name_of(ending)), sum);
  }
  out.family("once_responses_total", "counter", "Responses sent to clients, by class of status.");
  for (std::size_t status_class = 1; status_class <= 5; ++status_class) {
    std::uint64_t sum = 0;
    for (const Metrics* metrics : workers) sum += metrics->responses[status_class].value();
    out.sample(fmt::format("class=\"{}xx\"", status_class), sum);
  }
  out.family("once_request_duration_seconds", "histogram",
             "From the first byte of a request to the last of its reply.");
  for (const Ending ending : all_endings) {
    HistogramSnapshot sum;
    for (const Metrics* metrics : workers) {
      sum.merge(metrics->duration_ns[static_cast<std::size_t>(ending)].snapshot());
    }
    out.histogram(fmt::format("result=\"{}\"", name_of(ending)), sum, nanoseconds_per_second);
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
      Row{"once_in_flight", "gauge", "Keyed requests at work.", &Metrics::in_flight},
      Row{"once_waiting", "gauge", "Requests that wait for another one's outcome.", &Metrics::waiting},
      Row{"once_takeovers_total", "counter", "Executions after an attempt whose outcome was unknown.",
          &Metrics::takeovers},
      Row{"once_retries_after_failure_total", "counter", "Executions after a failed attempt.",
          &Metrics::retries_after_failure},
      Row{"once_leases_renewed_total", "counter", "Leases renewed while the backend worked.", &Metrics::leases_renewed},
      Row{"once_claims_lost_total", "counter", "Owners that found their claim gone.", &Metrics::claims_lost},
      Row{"once_backend_committed_total", "counter",
          "Outcomes that the backend recorded in its own transaction, and not as it answered.",
          &Metrics::committed_by_backend},
      Row{"once_store_errors_total", "counter", "Store operations that failed.", &Metrics::store_errors},
      Row{"once_record_retries_total", "counter", "Further tries to record an outcome.", &Metrics::record_retries},
      Row{"once_unsettled", "gauge", "Outcomes and releases that the store did not take yet.", &Metrics::unsettled},
      Row{"once_connections_open", "gauge", "Client connections.", &Metrics::connections_open},
      Row{"once_connections_total", "counter", "Client connections accepted.", &Metrics::connections_opened},
      Row{"once_connections_refused_total", "counter", "Client connections over a limit.",
          &Metrics::connections_refused},
      Row{"once_tls_handshakes_total", "counter", "TLS handshakes with clients that succeeded.",
          &Metrics::tls_handshakes},
      Row{"once_tls_handshakes_failed_total", "counter", "TLS handshakes with clients that failed.",
          &Metrics::tls_handshakes_failed},
      Row{"once_connections_displaced_total", "counter", "Idle client connections closed to make room for new ones.",
          &Metrics::connections_displaced},
      Row{"once_slow_clients_total", "counter", "Clients cut off because they sent or took too slowly.",
          &Metrics::slow_clients},
      Row{"once_backend_connects_total", "counter", "Connections opened to backends.", &Metrics::backend_connects},
      Row{"once_backend_connect_failures_total", "counter", "Backends that could not be reached.",
          &Metrics::backend_connect_failures},
      Row{"once_tokens_verified_total", "counter", "Tokens whose signature was checked and found good.",
          &Metrics::tokens_verified},
      Row{"once_tokens_remembered_total", "counter", "Tokens that had been checked before.",
          &Metrics::tokens_remembered},
      Row{"once_tokens_refused_total", "counter", "Tokens that are not valid.", &Metrics::tokens_refused},
      Row{"once_not_modified_total", "counter", "Responses 304 by an ETag that Once had given.",
          &Metrics::not_modified},
      Row{"once_preflights_total", "counter", "CORS preflights answered by Once.", &Metrics::preflights},
  };
  for (const Row& row : rows) {
    out.family(row.name, row.type, row.help);
    out.sample("", total(workers, row.counter));
  }
  out.family("once_preconditions_total", "counter", "Conditions of writes, by what became of them.");
  for (std::size_t i = 0; i < precondition_result_count; ++i) {
    std::uint64_t sum = 0;
    for (const Metrics* worker : workers) sum += worker->preconditions[i].value();
    out.sample(fmt::format("result=\"{}\"", name_of(PreconditionResult(i))), sum);
  }
}

// The names are the operator's own: of upstreams plain ones, of servers URLs without anything secret in them.
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
  each_server("once_upstream_up", "1 while a server is up, 0 while it is avoided.",
              [](const ServerState& server) { return server.health.shown_up() ? 1U : 0U; });
  each_server("once_upstream_connections", "Connections to a server.",
              [](const ServerState& server) { return server.connections.load(std::memory_order_relaxed); });
  each_upstream("once_upstream_queued", "gauge", "Requests that wait for a connection.",
                [](const UpstreamState& state) { return state.queued.load(std::memory_order_relaxed); });
  each_upstream("once_upstream_queue_refused_total", "counter", "Requests that found no free connection in time.",
                [](const UpstreamState& state) { return state.queue_refused.load(std::memory_order_relaxed); });
}

// A counter for each value of an enum.
template <class Kind, std::size_t Size>
void write_by_kind(Exposition& out, std::string_view label, const std::vector<const Metrics*>& workers,
                   std::array<Counter, Size> Metrics::* counters) {
  for (std::size_t kind = 0; kind < Size; ++kind) {
    std::uint64_t sum = 0;
    for (const Metrics* metrics : workers) sum += (metrics->*counters)[kind].value();
    out.sample(fmt::format("{}=\"{}\"", label, name_of(static_cast<Kind>(kind))), sum);
  }
}

void write_limits(Exposition& out, const Gateway& gateway) {
  const std::vector<const Metrics*> workers = gateway.metrics();
  out.family("once_overloaded_total", "counter", "Requests with a key refused because the gateway had too much to do.");
  write_by_kind<Overload>(out, "limit", workers, &Metrics::overloaded);
  out.family("once_caller_limit_total", "counter", "Requests with a key refused because of a limit on their caller.");
  write_by_kind<CallerLimit>(out, "limit", workers, &Metrics::over_limit);
  out.family("once_shadow_total", "counter", "Requests in shadow mode, by what would have been done.");
  write_by_kind<Shadowed>(out, "verdict", workers, &Metrics::shadow);
  out.family("once_body_bytes", "gauge", "Memory for the bodies of requests with a key.");
  out.sample("", std::uint64_t{gateway.body_bytes()});
  out.family("once_callers", "gauge", "Callers that limits are counted for.");
  out.sample("", std::uint64_t{gateway.callers()});
}

struct StoreRow {
  std::string_view name;
  std::string_view type;
  std::string_view help;
  std::uint64_t value;
};

void write_rows(Exposition& out, std::span<const StoreRow> rows) {
  for (const StoreRow& row : rows) {
    out.family(row.name, row.type, row.help);
    out.sample("", row.value);
  }
}

void write_memory(Exposition& out, const MemoryStats& stats) {
  const std::array rows = {
      StoreRow{"once_store_records", "gauge", "Records held.", stats.records},
      StoreRow{"once_store_bytes", "gauge", "Memory they take.", stats.bytes},
      StoreRow{"once_store_evictions_total", "counter", "Records dropped before they expired, for want of room.",
               stats.evictions},
      StoreRow{"once_store_full_total", "counter", "Claims refused for want of room.", stats.refused},
      StoreRow{"once_store_bodies_dropped_total", "counter", "Responses that were too large for the store to keep.",
               stats.bodies_dropped},
      StoreRow{"once_store_expired_total", "counter", "Records dropped because they had expired.", stats.expired},
  };
  write_rows(out, rows);
}

void write_journal(Exposition& out, const JournalStats& stats) {
  using Condition = JournalStats::Condition;
  const std::array rows = {
      StoreRow{"once_store_records", "gauge", "Records held.", stats.keys},
      StoreRow{"once_store_bytes", "gauge", "Memory they take.", stats.index_bytes + stats.cache_bytes},
      StoreRow{"once_store_full_total", "counter", "Claims refused for want of room.", stats.refused},
      StoreRow{"once_store_bodies_dropped_total", "counter", "Responses that were too large for the store to keep.",
               stats.bodies_dropped},
      StoreRow{"once_store_expired_total", "counter", "Records dropped because they had expired.", stats.expired},
      StoreRow{"once_journal_full", "gauge", "1 while new keys are refused for want of room.",
               stats.condition == Condition::full ? 1U : 0U},
      StoreRow{"once_journal_failed", "gauge", "1 after a write or sync failed, until the restart that is needed.",
               stats.condition == Condition::failed ? 1U : 0U},
      StoreRow{"once_journal_disk_bytes", "gauge", "Size of all segments.", stats.disk_bytes},
      StoreRow{"once_journal_segments", "gauge", "Files.", stats.segments},
      StoreRow{"once_journal_live_claims", "gauge", "Claims whose owner is at work.", stats.live_claims},
      StoreRow{"once_journal_written_bytes_total", "counter", "Bytes appended.", stats.bytes_written},
      StoreRow{"once_journal_syncs_total", "counter", "Times that the disk was waited for.", stats.syncs},
      StoreRow{"once_journal_reads_total", "counter", "Records read back from a segment.", stats.read_back},
      StoreRow{"once_journal_carried_total", "counter", "Records copied forward from an old segment.", stats.carried},
      StoreRow{"once_journal_segments_dropped_total", "counter", "Segments removed.", stats.segments_dropped},
  };
  write_rows(out, rows);
}

void write_server(Exposition& out, const ServerStats& stats) {
  const std::array rows = {
      StoreRow{"once_store_connections", "gauge", "Connections to the store's server.", stats.connections},
      StoreRow{"once_store_connects_total", "counter", "Connections made to it.", stats.connects},
      StoreRow{"once_store_connect_failures_total", "counter", "Times that it could not be reached.",
               stats.connect_failures},
      StoreRow{"once_store_indeterminate_total", "counter", "Operations whose answer never came.", stats.indeterminate},
      StoreRow{"once_store_retried_total", "counter", "Operations done again after a conflict or a redirection.",
               stats.retried},
      StoreRow{"once_store_swept_total", "counter", "Expired records removed by this gateway.", stats.swept},
      StoreRow{"once_store_told_total", "counter", "Ends of operations that the server told of.", stats.told},
  };
  write_rows(out, rows);
}

void write_lanes(Exposition& out, const LaneStats& stats) {
  out.family("once_store_queue_depth", "gauge", "Operations that wait for a lane.");
  out.sample("", std::uint64_t{stats.queue_depth});
  out.family("once_store_refused_total", "counter", "Operations refused because a lane's queue was full.");
  out.sample("", stats.refused);
  out.family("once_store_batch_size", "histogram", "Operations in one batch.");
  out.histogram("", stats.batch_size, 1);
  out.family("once_store_batch_duration_seconds", "histogram", "What the store took for one batch.");
  out.histogram("", stats.store_time_ns, nanoseconds_per_second);
}

void write_claims(Exposition& out, const ClaimsMetrics& metrics) {
  out.family("once_claims_requests_total", "counter", "Requests to the claims API, by verb and how they ended.");
  for (std::size_t verb = 0; verb < claims_verb_count; ++verb) {
    for (const ClaimsResult result : results_of(ClaimsVerb(verb))) {
      out.sample(fmt::format("verb=\"{}\",result=\"{}\"", name_of(ClaimsVerb(verb)), name_of(result)),
                 metrics.requests[verb][static_cast<std::size_t>(result)].value());
    }
  }
  const std::array rows = {
      StoreRow{"once_claims_takeovers_total", "counter",
               "Claims acquired after an attempt that nobody knows the end of.", metrics.takeovers.value()},
      StoreRow{"once_claims_retries_after_failure_total", "counter", "Claims acquired after an attempt that failed.",
               metrics.retries_after_failure.value()},
      StoreRow{"once_claims_waiting", "gauge", "Long polls at the claims API.", metrics.waiting.value()},
      StoreRow{"once_claims_waits_refused_total", "counter", "Long polls over claims.max_waiting, answered at once.",
               metrics.waits_refused.value()},
      StoreRow{"once_claims_connections_open", "gauge", "Connections to the claims API.",
               metrics.connections_open.value()},
      StoreRow{"once_claims_connections_refused_total", "counter", "Connections over claims.max_connections.",
               metrics.connections_refused.value()},
      StoreRow{"once_claims_bodies_refused_total", "counter", "Requests over claims.max_body.",
               metrics.bodies_refused.value()},
  };
  write_rows(out, rows);
}

void write_store(Exposition& out, const AdminSources& sources) {
  if (sources.memory != nullptr) write_memory(out, sources.memory->stats());
  if (sources.journal != nullptr) write_journal(out, sources.journal->stats());
  if (sources.server != nullptr) write_server(out, sources.server->stats());
  if (!sources.store.store().traits().inline_execution) write_lanes(out, sources.store.stats());
}

}  // namespace

Task<ServiceResponse> Admin::handle(const ServiceRequest& request) {
  if (request.head.path == "/v1/reload") {
    ServiceResponse response = co_await reload(request);
    co_return response;
  }
  if (request.head.method != Method::get && request.head.method != Method::head) {
    co_return problem_response(ProblemKind::method_not_allowed, "Only GET is served here.");
  }
  const std::string_view path = request.head.path;
  if (path == "/healthz") co_return text(200, "ok\n");
  if (path == "/readyz") {
    ServiceResponse ready = co_await readyz();
    co_return ready;
  }
  if (path == "/metrics") {
    co_return ServiceResponse{
        .status = 200, .content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics()};
  }
  co_return problem_response(ProblemKind::not_found,
                             "There are /healthz, /readyz, /metrics and, for POST, /v1/reload.");
}

Task<ServiceResponse> Admin::reload(const ServiceRequest& request) {
  if (request.head.method != Method::post) {
    co_return problem_response(ProblemKind::method_not_allowed, "A reload is asked for with POST.");
  }
  // A page in somebody's browser can send a POST here, but not with a header of its own; unless its name is made to
  // lead here, and then it is not ours.
  const bool by_page = request.head.find("Origin").has_value() || !names_loopback(request.head.host);
  if (by_page || !request.head.find("Once-Admin")) {
    co_return problem_response(ProblemKind::bad_request, "A reload is asked for with the header Once-Admin: 1.");
  }
  if (!is_loopback(thread_.address())) {
    co_return problem_response(ProblemKind::bad_request,
                               "A reload is asked for at a loopback address only; elsewhere send SIGHUP.");
  }
  Reload reload(sources_.reload, thread_.loop());
  co_await reload;
  if (reload.answer.errors.empty()) co_return text(200, lines_of(reload.answer.warnings, "reloaded\n"));
  Problem refused = problem(ProblemKind::bad_request, lines_of(reload.answer.errors, ""));
  refused.status = 422;
  co_return ServiceResponse{
      .status = refused.status, .content_type = "application/problem+json", .body = to_json(refused)};
}

// Ready: not draining, and the store answers.
Task<ServiceResponse> Admin::readyz() {
  if (draining_.load(std::memory_order_relaxed)) co_return text(503, "draining\n");
  Op probe;  // a look-up of an id that nobody has
  co_await sources_.store.run(probe, thread_.loop());
  if (probe.status == OpStatus::failed) co_return text(503, "store: " + probe.error + "\n");
  co_return text(200, "ready\n");
}

std::string Admin::metrics() const {
  Exposition out;
  const auto workers = sources_.gateway.metrics();
  out.family("once_build_info", "gauge", "Always 1; the version is in the label.");
  out.sample(fmt::format("version=\"{}\"", sources_.version), std::uint64_t{1});
  write_requests(out, workers);
  write_counters(out, workers);
  write_upstreams(out, *sources_.gateway.generation()->upstreams);
  write_limits(out, sources_.gateway);
  write_claims(out, sources_.claims);
  write_store(out, sources_);
  return out.take();
}

}  // namespace once
