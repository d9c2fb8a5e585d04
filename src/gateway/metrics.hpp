// The counters of a worker. Each worker writes its own, /metrics sums them; counting is one plain store.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.hpp"
#include "gateway/exchange/at_work.hpp"
#include "gateway/limits/caller_limits.hpp"
#include "http/response_fault.hpp"

namespace once::gateway {

// How a request ended. Used in metrics and logs and, except the first and the last, in Idempotency-Status.
enum class Ending : std::uint8_t {
  passed,  // no key: the request passed through
  executed,
  replayed,
  attached,  // joined a response that is still streaming
  in_flight,
  mismatch,
  unknown,
  bypassed,  // executed unprotected, because the store was down
  rejected,  // answered by the gateway itself, nothing was executed
  stopped,   // stopped a streaming response
};
inline constexpr std::size_t ending_count = 10;

// The result of checking the conditions of a write (conditional.if_match).
enum class PreconditionResult : std::uint8_t {
  passed,
  failed,           // 412
  missing,          // 428
  invalid,          // 400
  left_to_backend,  // the backend has tags of its own
  unreadable,       // the backend did not return the state of the resource
  busy,             // another write of the resource took too long
  no_store,         // the resource could not be claimed
};
inline constexpr std::size_t precondition_result_count = 8;
std::string_view name_of(PreconditionResult result);

// What a route in shadow mode would have done with a request.
enum class Shadowed : std::uint8_t {
  executed,
  replayed,
  in_flight,
  mismatch,
  unknown,
  expired,
  key_required,
  key_invalid,
  bad_request,
  caller_refused,
  body_too_large,
  overloaded,   // no memory for its body: not checked
  incomplete,   // the request ended before it was complete
  store_error,  // the store did not answer
};
inline constexpr std::size_t shadowed_count = 14;
std::string_view name_of(Shadowed verdict);

// How the claim of an execution ended in the store.
enum class ClaimEnd : std::uint8_t {
  succeeded,
  failed,
  unknown,
  released,    // undone: nothing was sent, or the backend reported that nothing was done
  lost,        // another attempt took it over
  unrecorded,  // the store did not accept the outcome
};
inline constexpr std::size_t claim_end_count = 6;
std::string_view name_of(ClaimEnd settled);

enum class Overload : std::uint8_t { in_flight, body_memory, spool };
inline constexpr std::size_t overload_count = 3;
std::string_view name_of(Overload limit);

// Why a connection without a valid PROXY protocol header was closed.
enum class ProxyRefusal : std::uint8_t {
  untrusted,  // the peer is not in proxy_protocol.from
  malformed,
  late,
  overload,  // too many connections wait for their header
};
inline constexpr std::size_t proxy_refusal_count = 4;
std::string_view name_of(ProxyRefusal why);

// The name in headers, logs and metrics.
std::string_view name_of(Ending ending);

// Written by one thread, read by any.
class Counter {
 public:
  void add(std::uint64_t count = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  void subtract(std::uint64_t count = 1) {
    value_.store(value_.load(std::memory_order_relaxed) - count, std::memory_order_relaxed);
  }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_ = 0;
};

// 50 µs to 100 s; the last bucket holds everything above.
inline constexpr std::array<std::uint64_t, 20> duration_bounds_ns = {
    50'000,        100'000,       250'000,        500'000,        1'000'000,      2'500'000,      5'000'000,
    10'000'000,    25'000'000,    50'000'000,     100'000'000,    250'000'000,    500'000'000,    1'000'000'000,
    2'500'000'000, 5'000'000'000, 10'000'000'000, 25'000'000'000, 50'000'000'000, 100'000'000'000};

struct DurationHistogram : Histogram<duration_bounds_ns.size()> {
  DurationHistogram() : Histogram(duration_bounds_ns) {}
};

// Counters of one route in one worker, on cache lines of their own.
struct alignas(64) RouteMetrics {
  std::array<Counter, ending_count> requests;     // by Ending
  std::array<Counter, claim_end_count> outcomes;  // by ClaimEnd
  Counter takeovers;              // executions after an attempt whose owner had died or whose outcome was unknown
  Counter retries_after_failure;  // executions after a failed attempt
};

// The counters of one worker's routes, by label. Routes that a reload removes stay, so that counters never go
// backwards; their number is bounded by the patterns configured since the start.
class RouteTable {
 public:
  // The label of requests that match no route, or could not be parsed. Patterns begin with a slash, so none is equal.
  static constexpr std::string_view none = "none";

  // The reference stays valid. Called on reload, not per request.
  RouteMetrics& of(std::string_view route);
  // Thread-safe.
  void visit(auto&& see) const {
    const std::scoped_lock lock(growing_);
    for (const auto& [route, counts] : routes_) see(route, *counts);
  }

 private:
  mutable std::mutex growing_;
  std::map<std::string, std::unique_ptr<RouteMetrics>, std::less<>> routes_;
};

struct Metrics {
  RouteTable routes;
  AtWork at_work;                                           // keyed requests
  std::array<Counter, ending_count> requests;               // by Ending, over all routes
  std::array<Counter, 6> responses;                         // by status / 100
  std::array<DurationHistogram, ending_count> duration_ns;  // by Ending
  Counter connections_opened;
  Counter connections_open;
  Counter connections_refused;
  std::array<Counter, proxy_refusal_count> proxy_refused;  // by ProxyRefusal
  Counter tls_handshakes;                                  // with clients
  Counter tls_handshakes_failed;
  Counter connections_displaced;                   // idle or slow connections closed in favour of new ones
  Counter slow_clients;                            // disconnected for sending a body or reading a response too slowly
  std::array<Counter, overload_count> overloaded;  // by Overload
  Counter bodies_dropped;                          // responses recorded without their body for lack of memory
  std::array<Counter, caller_limit_count> over_limit;  // by CallerLimit
  std::array<Counter, shadowed_count> shadow;          // by Shadowed
  Counter idle_releases;                               // connections that idled and released their memory
  Counter may_need_store;                              // requests that have begun and may need the store
  Counter in_flight;                                   // keyed requests in progress
  Counter waiting;                                     // requests that wait for another one's outcome
  Counter leases_renewed;
  Counter renewals_failed;  // the store did not answer
  Counter renewals_lost;    // the claim was gone
  Counter claims_lost;
  Counter committed_by_backend;  // outcomes that the backend committed itself and that differ from its response
  Counter store_errors;
  Counter store_full;  // refused because the store is full
  Counter record_retries;
  Counter unsettled;  // finishes and releases that failed and are retried
  Counter backend_connects;
  Counter backend_connect_failures;
  // Responses that are recorded as they stream, and their chunks.
  Counter streams_begun;
  Counter streams_cut;                     // ended early, because the backend or the claim was lost
  Counter streams_stopped;                 // by their caller or an operator
  DurationHistogram stream_first_byte_ns;  // from sending the request to the backend until the reply's head is sent
  Counter stream_chunks;
  Counter stream_bytes;
  std::array<Counter, http::response_fault_count> malformed_responses;  // by http::ResponseFault
  Counter without_caller;     // requests with a key and no caller; they share one
  Counter tokens_verified;    // signatures checked and valid
  Counter tokens_remembered;  // found in the cache of checked tokens
  Counter tokens_refused;
  std::array<Counter, precondition_result_count> preconditions;  // by PreconditionResult
  Counter not_modified;                                          // 304 for a tag made by Once
  Counter preflights;                                            // CORS preflights answered
};

// RouteMetrics summed over all workers.
struct RouteTotals {
  std::array<std::uint64_t, ending_count> requests{};
  std::array<std::uint64_t, claim_end_count> outcomes{};
  std::uint64_t takeovers = 0;
  std::uint64_t retries_after_failure = 0;
};

// Counters per route label, summed over these workers. Thread-safe.
std::map<std::string, RouteTotals> route_totals(const std::vector<const Metrics*>& workers);

}  // namespace once::gateway
