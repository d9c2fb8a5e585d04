#include "admin/samples.hpp"

#include <algorithm>
#include <ranges>

#include "base/assert.hpp"

namespace once::admin {

namespace {

// Counters only grow, but a snapshot is not atomic.
std::uint64_t grown(std::uint64_t from, std::uint64_t to) {
  return to > from ? to - from : 0;
}

HistogramSnapshot grown(const HistogramSnapshot& from, const HistogramSnapshot& to) {
  HistogramSnapshot difference = to;
  difference.count = 0;
  difference.sum = grown(from.sum, to.sum);
  for (std::size_t i = 0; i < to.counts.size(); ++i) {
    if (i < from.counts.size()) difference.counts[i] = grown(from.counts[i], to.counts[i]);
    difference.count += difference.counts[i];
  }
  return difference;
}

std::optional<double> share(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(std::min(part, whole)) / static_cast<double>(whole);
}

// Excludes requests that passed through, were executed unprotected, or were refused regardless of their key.
bool by_its_key(Ending ending) {
  return ending != Ending::passed && ending != Ending::bypassed && ending != Ending::rejected &&
         ending != Ending::stopped;
}

void add_executions(const Metrics& worker, Sample& sample) {
  worker.routes.visit([&](const auto&, const RouteMetrics& route) {
    for (const Counter& outcome : route.outcomes) sample.executions += outcome.value();
    sample.failures += route.outcomes[static_cast<std::size_t>(ClaimEnd::failed)].value();
    for (const ClaimEnd settled : {ClaimEnd::unknown, ClaimEnd::unrecorded}) {
      sample.unknown += route.outcomes[static_cast<std::size_t>(settled)].value();
    }
    sample.takeovers += route.takeovers.value();
  });
}

}  // namespace

Sample take_sample(const Gateway& gateway, const ThreadLanes& lanes, Instant now, Time time) {
  Sample sample;
  sample.at = now;
  sample.time = time;
  for (const Metrics* metrics : gateway.metrics()) {
    for (std::size_t ending = 0; ending < ending_count; ++ending) {
      sample.results[ending] += metrics->requests[ending].value();
      if (Ending(ending) != Ending::passed) sample.latency_ns.merge(metrics->duration_ns[ending].snapshot());
    }
    add_executions(*metrics, sample);
    for (const Counter& limit : metrics->overloaded) sample.overloaded += limit.value();
    sample.store_errors += metrics->store_errors.value();
    sample.store_full += metrics->store_full.value();
    sample.in_flight += metrics->in_flight.value();
    sample.waiting += metrics->waiting.value();
    sample.connections += metrics->connections_open.value();
  }
  sample.out_of_descriptors = gateway.faults().out_of_descriptors();
  LaneStats stats = lanes.stats();
  sample.batch_size = std::move(stats.batch_size);
  sample.batch_ns = std::move(stats.store_time_ns);
  sample.queue_depth = stats.queue_depth;
  return sample;
}

Window::Window(const Sample& from, const Sample& to)
    : seconds(std::max(0.001, std::chrono::duration<double>(to.at - from.at).count())),
      executions(grown(from.executions, to.executions)),
      failures(grown(from.failures, to.failures)),
      takeovers(grown(from.takeovers, to.takeovers)),
      unknown(grown(from.unknown, to.unknown)),
      overloaded(grown(from.overloaded, to.overloaded)),
      store_errors(grown(from.store_errors, to.store_errors)),
      out_of_descriptors(grown(from.out_of_descriptors, to.out_of_descriptors)),
      store_full(grown(from.store_full, to.store_full)),
      latency_ns(grown(from.latency_ns, to.latency_ns)),
      batch_size(grown(from.batch_size, to.batch_size)),
      batch_ns(grown(from.batch_ns, to.batch_ns)),
      in_flight(to.in_flight),
      until(to.time) {
  for (std::size_t ending = 0; ending < ending_count; ++ending) {
    results[ending] = grown(from.results[ending], to.results[ending]);
    if (by_its_key(Ending(ending))) keyed += results[ending];
  }
}

std::optional<double> Window::hit_rate() const {
  return share(of(Ending::replayed), keyed);
}

std::optional<double> Window::takeover_rate() const {
  return share(takeovers, executions);
}

std::optional<double> Window::failure_rate() const {
  return share(failures, executions);
}

std::optional<double> quantile(const HistogramSnapshot& histogram, double share_below) {
  if (histogram.count == 0) return std::nullopt;
  const double wanted = share_below * static_cast<double>(histogram.count);
  double below = 0;
  for (std::size_t i = 0; i < histogram.bounds.size(); ++i) {
    const auto here = static_cast<double>(histogram.counts[i]);
    if (here > 0 && below + here >= wanted) {
      const double low = i == 0 ? 0.0 : static_cast<double>(histogram.bounds[i - 1]);
      const auto high = static_cast<double>(histogram.bounds[i]);
      return low + ((high - low) * std::clamp((wanted - below) / here, 0.0, 1.0));
    }
    below += here;
  }
  return static_cast<double>(histogram.bounds.back());
}

std::optional<double> mean(const HistogramSnapshot& histogram) {
  if (histogram.count == 0) return std::nullopt;
  return static_cast<double>(histogram.sum) / static_cast<double>(histogram.count);
}

void History::add(Sample sample) {
  if (samples_.size() == most) samples_.pop_front();
  samples_.push_back(std::move(sample));
}

const Sample& History::before(Instant now, Instant age) const {
  ONCE_ASSERT(!samples_.empty());
  for (const Sample& sample : std::views::reverse(samples_)) {
    if (sample.at + age <= now) return sample;
  }
  return samples_.front();
}

}  // namespace once::admin
