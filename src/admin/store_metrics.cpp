#include "admin/store_metrics.hpp"

#include <string_view>

#include "admin/exposition.hpp"
#include "store/lane.hpp"

namespace once::admin {

namespace {

std::string_view name_of(StoreMetric::Type type) {
  switch (type) {
    case StoreMetric::Type::gauge: return "gauge";
    case StoreMetric::Type::counter: return "counter";
  }
  return "";
}

void write_lanes(Exposition& out, const LaneStats& stats) {
  out.single("once_store_queue_depth", "gauge", "Operations waiting for a lane.", stats.queue_depth);
  out.single("once_store_queue_limit", "gauge", "Limit of waiting operations.", stats.queue_limit);
  out.single("once_store_refused_total", "counter", "Operations refused because a lane's queue was full.",
             stats.refused);
  out.family("once_store_batch_size", "histogram", "Operations in one batch.");
  out.histogram("", stats.batch_size, 1);
  out.family("once_store_batch_duration_seconds", "histogram", "Time that the store took for one batch.");
  out.histogram("", stats.store_time_ns, nanoseconds_per_second);
}

}  // namespace

void write_store_metrics(Exposition& out, const ThreadLanes& store) {
  const StoreReport report = store.store().report();
  for (const StoreMetric& metric : report.metrics) {
    out.single(metric.name, name_of(metric.type), metric.help, metric.value);
  }
  if (!store.store().traits().inline_execution) write_lanes(out, store.stats());
}

}  // namespace once::admin
