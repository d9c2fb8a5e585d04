// Samples of the gateway's counters and their differences, for the dashboard and its alerts. A quarter of an hour is
// kept, so that a newly opened page has a history.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "admin/sessions.hpp"
#include "base/clock.hpp"
#include "base/histogram.hpp"
#include "gateway/gateway.hpp"
#include "store/lane.hpp"

namespace once::admin {

struct Sample {
  Instant at{};
  Time time;
  std::array<std::uint64_t, ending_count> results{};  // by Ending; counters from here on
  std::uint64_t executions = 0;
  std::uint64_t failures = 0;   // among these
  std::uint64_t takeovers = 0;  // among these: after an attempt with an unknown end
  std::uint64_t unknown = 0;    // among these: unknown or unrecorded outcomes
  std::uint64_t overloaded = 0;
  std::uint64_t store_errors = 0;
  std::uint64_t out_of_descriptors = 0;
  std::uint64_t store_full = 0;
  HistogramSnapshot latency_ns;  // of requests with a key
  HistogramSnapshot batch_size;
  HistogramSnapshot batch_ns;
  std::uint64_t in_flight = 0;  // current values from here on
  std::uint64_t waiting = 0;
  std::uint64_t connections = 0;
  std::uint64_t queue_depth = 0;
};

Sample take_sample(const Gateway& gateway, const ThreadLanes& lanes, Instant now, Time time);

// The events between two samples.
struct Window {
  Window(const Sample& from, const Sample& to);

  double seconds;
  std::array<std::uint64_t, ending_count> results{};
  std::uint64_t keyed = 0;  // answered from their key's record
  std::uint64_t executions;
  std::uint64_t failures;
  std::uint64_t takeovers;
  std::uint64_t unknown;
  std::uint64_t overloaded;
  std::uint64_t store_errors;
  std::uint64_t out_of_descriptors;
  std::uint64_t store_full;
  HistogramSnapshot latency_ns;
  HistogramSnapshot batch_size;
  HistogramSnapshot batch_ns;
  std::uint64_t in_flight;  // at the end of the window
  Time until;

  std::uint64_t of(Ending ending) const { return results[static_cast<std::size_t>(ending)]; }
  // nullopt if there were no events.
  std::optional<double> hit_rate() const;
  std::optional<double> takeover_rate() const;
  std::optional<double> failure_rate() const;
};

// Interpolates within the bucket; above the last bound, returns that bound. nullopt for an empty histogram.
std::optional<double> quantile(const HistogramSnapshot& histogram, double share);
std::optional<double> mean(const HistogramSnapshot& histogram);

class History {
 public:
  static constexpr Duration interval = std::chrono::seconds(5);
  static constexpr std::size_t most = 181;  // 15 minutes and their start

  void add(Sample sample);
  const std::deque<Sample>& samples() const { return samples_; }
  // The newest sample that is at least this old, else the oldest. Call after the first add().
  const Sample& before(Instant now, Instant age) const;

 private:
  std::deque<Sample> samples_;
};

}  // namespace once::admin
