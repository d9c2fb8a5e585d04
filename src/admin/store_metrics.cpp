#include "admin/store_metrics.hpp"

#include <string_view>

#include "admin/admin.hpp"
#include "admin/exposition.hpp"

namespace once {

namespace {

constexpr std::string_view bytes_limit_help = "Limit of memory for records.";

void write_memory(Exposition& out, const MemoryStats& stats, const FixedLimits& limits) {
  out.single("once_store_bytes_limit", "gauge", bytes_limit_help, limits.store_bytes);
  out.single("once_store_records", "gauge", "Records held.", stats.records);
  out.single("once_store_bytes", "gauge", "Memory used by records.", stats.bytes);
  out.single("once_store_evictions_total", "counter",
             "Records evicted before they expired because the store was "
             "full.",
             stats.evictions);
  out.single("once_store_bodies_dropped_total", "counter", "Responses too large for the store.", stats.bodies_dropped);
  out.single("once_store_expired_total", "counter", "Expired records removed.", stats.expired);
}

void write_journal(Exposition& out, const JournalStats& stats, const FixedLimits& limits) {
  using Condition = JournalStats::Condition;
  out.single("once_store_bytes_limit", "gauge", bytes_limit_help, limits.store_bytes);
  out.single("once_journal_disk_bytes_limit", "gauge", "Limit of the total size of segments.",
             limits.journal_disk_bytes);
  out.single("once_store_records", "gauge", "Records held.", stats.keys);
  out.single("once_store_bytes", "gauge", "Memory used by records.", stats.index_bytes + stats.cache_bytes);
  out.single("once_store_bodies_dropped_total", "counter", "Responses too large for the store.", stats.bodies_dropped);
  out.single("once_store_expired_total", "counter", "Expired records removed.", stats.expired);
  out.single("once_journal_full", "gauge", "1 while new keys are refused because the journal is full.",
             stats.condition == Condition::full ? 1U : 0U);
  out.single("once_journal_failed", "gauge", "1 after a failed write or sync, until a restart.",
             stats.condition == Condition::failed ? 1U : 0U);
  out.single("once_journal_clock_ahead_seconds", "gauge",
             "How far the clock is ahead of the elapsed time; no records are deleted meanwhile.",
             static_cast<std::uint64_t>(std::chrono::floor<std::chrono::seconds>(stats.clock_ahead).count()));
  out.single("once_journal_disk_bytes", "gauge", "Total size of segments.", stats.disk_bytes);
  out.single("once_journal_segments", "gauge", "Files.", stats.segments);
  out.single("once_journal_live_claims", "gauge", "Claims with a running owner.", stats.live_claims);
  out.single("once_journal_written_bytes_total", "counter", "Bytes appended.", stats.bytes_written);
  out.single("once_journal_syncs_total", "counter", "Syncs to disk.", stats.syncs);
  out.single("once_journal_reads_total", "counter", "Records read from a segment.", stats.read_back);
  out.single("once_journal_carried_total", "counter", "Records copied forward from an old segment.", stats.carried);
  out.single("once_journal_segments_dropped_total", "counter", "Segments removed.", stats.segments_dropped);
}

void write_server(Exposition& out, const ServerStats& stats) {
  out.single("once_store_connections", "gauge", "Connections to the store's server.", stats.connections);
  out.single("once_store_connects_total", "counter", "Connections opened to the store's server.", stats.connects);
  out.single("once_store_connect_failures_total", "counter", "Failed connections to the store's server.",
             stats.connect_failures);
  out.single("once_store_indeterminate_total", "counter", "Operations without an answer.", stats.indeterminate);
  out.single("once_store_retried_total", "counter", "Operations repeated after a conflict or a redirection.",
             stats.retried);
  out.single("once_store_swept_total", "counter", "Expired records removed by this gateway.", stats.swept);
  out.single("once_store_told_total", "counter", "Notifications from the server about ended operations.", stats.told);
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

void write_store_metrics(Exposition& out, const AdminSources& sources) {
  if (sources.memory != nullptr) write_memory(out, sources.memory->stats(), sources.limits);
  if (sources.journal != nullptr) write_journal(out, sources.journal->stats(), sources.limits);
  if (sources.server != nullptr) write_server(out, sources.server->stats());
  if (!sources.store.store().traits().inline_execution) write_lanes(out, sources.store.stats());
}

}  // namespace once
