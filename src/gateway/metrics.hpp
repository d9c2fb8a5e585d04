// What a worker counts. Each worker writes its own, /metrics adds them up; a count is one plain store.
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

// How a request ended, as it is counted and logged, and, but for the first and the last, said in Idempotency-Status.
enum class Ending : std::uint8_t {
  passed,  // no key: streamed through
  executed,
  replayed,
  attached,  // to a response that is still streaming
  in_flight,
  mismatch,
  unknown,
  bypassed,  // executed without protection: the store was down
  rejected,  // answered by the gateway itself, nothing was executed
  stopped,   // a caller asked to end a response that streams
};
inline constexpr std::size_t ending_count = 10;

// What became of the conditions of a write (conditional.if_match).
enum class PreconditionResult : std::uint8_t {
  passed,
  failed,           // 412
  missing,          // 428
  invalid,          // 400
  left_to_backend,  // which has tags of its own
  unreadable,       // the backend did not say how the resource stands
  busy,             // another write took too long
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
  overloaded,   // no memory for its body: not looked at
  incomplete,   // it ended before all of it was there
  store_error,  // the store did not answer
};
inline constexpr std::size_t shadowed_count = 14;
std::string_view name_of(Shadowed verdict);

// What became of an execution at the store.
enum class ClaimEnd : std::uint8_t {
  succeeded,
  failed,
  unknown,
  released,    // as if never made: nothing was sent, or the backend said that nothing was done
  lost,        // another attempt had taken it over
  unrecorded,  // the store did not take it
};
inline constexpr std::size_t claim_end_count = 6;
std::string_view name_of(ClaimEnd settled);

enum class Overload : std::uint8_t { in_flight, body_memory, spool };
inline constexpr std::size_t overload_count = 3;
std::string_view name_of(Overload limit);

// Why a connection was closed that should have begun with a header of the PROXY protocol.
enum class ProxyRefusal : std::uint8_t {
  untrusted,  // not from one of proxy_protocol.from
  malformed,
  late,
  overload,  // too many wait for their header
};
inline constexpr std::size_t proxy_refusal_count = 4;
std::string_view name_of(ProxyRefusal why);

// As it stands in the header, the log and the metrics.
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

// 50 µs to 100 s; the last bucket is everything above.
inline constexpr std::array<std::uint64_t, 20> duration_bounds_ns = {
    50'000,        100'000,       250'000,        500'000,        1'000'000,      2'500'000,      5'000'000,
    10'000'000,    25'000'000,    50'000'000,     100'000'000,    250'000'000,    500'000'000,    1'000'000'000,
    2'500'000'000, 5'000'000'000, 10'000'000'000, 25'000'000'000, 50'000'000'000, 100'000'000'000};

struct DurationHistogram : Histogram<duration_bounds_ns.size()> {
  DurationHistogram() : Histogram(duration_bounds_ns) {}
};

// What is counted of each route, by one worker. On cache lines of its own.
struct alignas(64) RouteMetrics {
  std::array<Counter, ending_count> requests;     // by Ending
  std::array<Counter, claim_end_count> outcomes;  // by ClaimEnd
  Counter takeovers;              // executions after an attempt whose owner was gone or whose outcome was unknown
  Counter retries_after_failure;  // executions after a failed attempt
};

// The routes of one worker by their label. A route that a reload drops stays, so that no count ever goes backwards;
// there are as many as there were patterns in the configuration since the start.
class RouteTable {
 public:
  // The label of requests that no route fits, or that were not understood. Patterns begin with a slash.
  static constexpr std::string_view none = "none";

  // Stays where it is. Only a reload asks, not a request.
  RouteMetrics& of(std::string_view route);
  // From any thread.
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
  std::array<Counter, ending_count> requests;               // by Ending, of all routes
  std::array<Counter, 6> responses;                         // by status / 100
  std::array<DurationHistogram, ending_count> duration_ns;  // by Ending
  Counter connections_opened;
  Counter connections_open;
  Counter connections_refused;
  std::array<Counter, proxy_refusal_count> proxy_refused;  // by ProxyRefusal
  Counter tls_handshakes;                                  // with clients
  Counter tls_handshakes_failed;
  Counter connections_displaced;  // idle or slow ones that made room
  Counter slow_clients;           // cut off: a body that came, or a response that was taken, too slowly
  std::array<Counter, overload_count> overloaded;  // by Overload
  Counter bodies_dropped;  // responses recorded without their body, because there was no memory for it
  std::array<Counter, caller_limit_count> over_limit;  // by CallerLimit
  std::array<Counter, shadowed_count> shadow;          // by Shadowed
  Counter rested;          // connections that idled for a while and gave back what they held
  Counter may_need_store;  // requests that have begun and are not known to pass through
  Counter in_flight;       // keyed requests at work
  Counter waiting;         // requests that wait for another one's outcome
  Counter leases_renewed;
  Counter renewals_failed;  // the store did not answer
  Counter renewals_lost;    // the claim was gone
  Counter claims_lost;
  Counter committed_by_backend;  // outcomes that the backend recorded in its own transaction, and not as it answered
  Counter store_errors;
  Counter store_full;  // refused for want of room
  Counter record_retries;
  Counter unsettled;  // finishes and releases that did not get through and are tried on
  Counter backend_connects;
  Counter backend_connect_failures;
  // Responses that are recorded as they stream, and chunks of them.
  Counter streams_begun;
  Counter streams_cut;                     // the backend, or the claim, was lost before the end
  Counter streams_stopped;                 // by their caller or an operator
  DurationHistogram stream_first_byte_ns;  // from the request to the backend until the head of the reply goes out
  Counter stream_chunks;
  Counter stream_bytes;
  std::array<Counter, http::response_fault_count> malformed_responses;  // by http::ResponseFault
  Counter without_caller;     // requests with a key that share the caller of those who have none
  Counter tokens_verified;    // signatures checked, and found good
  Counter tokens_remembered;  // found among those that were checked before
  Counter tokens_refused;
  std::array<Counter, precondition_result_count> preconditions;  // by PreconditionResult
  Counter not_modified;                                          // 304 by a tag of ours
  Counter preflights;                                            // CORS preflights answered
};

// RouteMetrics of all workers together.
struct RouteTotals {
  std::array<std::uint64_t, ending_count> requests{};
  std::array<std::uint64_t, claim_end_count> outcomes{};
  std::uint64_t takeovers = 0;
  std::uint64_t retries_after_failure = 0;
};

// What was counted of each route, by its label, over all of these. From any thread.
std::map<std::string, RouteTotals> route_totals(const std::vector<const Metrics*>& workers);

}  // namespace once::gateway
