#include "store/journal/reopenable_journal.hpp"

#include <mutex>
#include <utility>

#include <poll.h>

#include "base/random.hpp"
#include "store/journal/system_disk.hpp"

namespace once::journal {

namespace {

constexpr std::string_view journal_is_closed =
    "the journal is closed for a successor, or could not be opened again after it";
constexpr int lock_look_milliseconds = 10;

std::unexpected<Error> no_journal() {
  return std::unexpected(
      Error{.source = ErrorSource::store, .retryable = Retryable::yes, .detail = std::string(journal_is_closed)});
}

}  // namespace

ReopenableJournal::ReopenableJournal(std::string folder, const Clock& clock, const Log& log,
                                     const JournalSettings& settings)
    : folder_(std::move(folder)), clock_(clock), log_(log), settings_(settings) {}

Result<void> ReopenableJournal::open(Duration patience) {
  const auto until = monotonic_now() + patience;
  SystemRandom random;
  Opened opened;
  for (bool waited = false;; waited = true) {
    opened.disk = std::make_unique<SystemDisk>(folder_);
    auto store = JournalStore::open(*opened.disk, clock_, random, log_, settings_);
    if (store) {
      opened.store = *std::move(store);
      break;
    }
    // Retry only if another process has the journal open.
    if (store.error().retryable == Retryable::no || monotonic_now() >= until) {
      lost_ = true;
      return std::unexpected(store.error());
    }
    if (!waited) log_.info("waiting for the journal", {{"why", store.error().detail}});
    ::poll(nullptr, 0, lock_look_milliseconds);
  }
  opened.keeper = std::make_unique<JournalKeeper>(*opened.store);
  const std::scoped_lock lock(mutex_);
  opened_ = std::move(opened);
  lost_ = false;
  at_once_.store(opened_.store.get(), std::memory_order_release);
  return {};
}

struct ReopenableJournal::Given final : Held {
  explicit Given(Opened the_journal) : journal(std::move(the_journal)) {}

  Opened journal;
};

std::unique_ptr<Exclusive::Held> ReopenableJournal::give_up() {
  at_once_.store(nullptr, std::memory_order_release);
  const std::scoped_lock lock(mutex_);
  last_stats_ = opened_.store->stats();
  failed_ = opened_.store->failed_for_good();
  return std::make_unique<Given>(std::exchange(opened_, {}));
}

void ReopenableJournal::execute(std::span<Op* const> batch) {
  const std::shared_lock lock(mutex_);
  if (opened_.store) return opened_.store->execute(batch);
  for (Op* const op : batch) answer_failed(*op, StoreFault::refused, journal_is_closed);
}

bool ReopenableJournal::answer_at_once(Op& op) {
  JournalStore* const store = at_once_.load(std::memory_order_acquire);
  return store != nullptr && store->answer_at_once(op);
}

std::size_t ReopenableJournal::part_of(const OperationId& id) const {
  const JournalStore* const store = at_once_.load(std::memory_order_acquire);
  return store != nullptr ? store->part_of(id) : 0;
}

bool ReopenableJournal::failed_for_good() const {
  const std::shared_lock lock(mutex_);
  return opened_.store ? opened_.store->failed_for_good() : failed_;
}

Result<KeyPage> ReopenableJournal::scan(const KeyFilter& filter, std::string_view cursor, std::size_t limit) {
  const std::shared_lock lock(mutex_);
  return opened_.store ? opened_.store->search()->scan(filter, cursor, limit) : no_journal();
}

Result<KeyPage> ReopenableJournal::find(const IdPrefix& prefix) {
  const std::shared_lock lock(mutex_);
  return opened_.store ? opened_.store->search()->find(prefix) : no_journal();
}

Result<KeyPage> ReopenableJournal::get(const OperationId& id) {
  const std::shared_lock lock(mutex_);
  return opened_.store ? opened_.store->search()->get(id) : no_journal();
}

Result<KeyCounts> ReopenableJournal::count(std::string_view cursor) {
  const std::shared_lock lock(mutex_);
  return opened_.store ? opened_.store->search()->count(cursor) : no_journal();
}

JournalStats ReopenableJournal::stats() const {
  const std::shared_lock lock(mutex_);
  return opened_.store ? opened_.store->stats() : last_stats_;
}

StoreCondition ReopenableJournal::condition() const {
  switch (stats().condition) {
    case JournalStats::Condition::well: return StoreCondition::well;
    case JournalStats::Condition::full: return StoreCondition::full;
    case JournalStats::Condition::failed: return StoreCondition::failed;
  }
  return StoreCondition::failed;
}

StoreReport ReopenableJournal::report() const {
  const JournalStats seen = stats();
  const std::uint64_t memory = seen.index_bytes + seen.cache_bytes;
  StoreReport out;
  out.gauge("once_store_bytes_limit", "Limit of memory for records.", settings_.max_memory);
  out.gauge("once_journal_disk_bytes_limit", "Limit of the total size of segments.", settings_.max_disk);
  out.gauge("once_store_records", "Records held.", seen.keys);
  out.gauge("once_store_bytes", "Memory used by records.", memory);
  out.counter("once_store_bodies_dropped_total", "Responses too large for the store.", seen.bodies_dropped);
  out.counter("once_store_expired_total", "Expired records removed.", seen.expired);
  out.gauge("once_journal_full", "1 while new keys are refused because the journal is full.",
            seen.condition == JournalStats::Condition::full ? 1U : 0U);
  out.gauge("once_journal_failed", "1 after a failed write or sync, until a restart.",
            seen.condition == JournalStats::Condition::failed ? 1U : 0U);
  out.gauge("once_journal_clock_ahead_seconds",
            "How far the clock is ahead of the elapsed time; no records are deleted meanwhile.",
            static_cast<std::uint64_t>(std::chrono::floor<std::chrono::seconds>(seen.clock_ahead).count()));
  out.gauge("once_journal_disk_bytes", "Total size of segments.", seen.disk_bytes);
  out.gauge("once_journal_segments", "Files.", seen.segments);
  out.gauge("once_journal_live_claims", "Claims with a running owner.", seen.live_claims);
  out.counter("once_journal_written_bytes_total", "Bytes appended.", seen.bytes_written);
  out.counter("once_journal_syncs_total", "Syncs to disk.", seen.syncs);
  out.counter("once_journal_reads_total", "Records read from a segment.", seen.read_back);
  out.counter("once_journal_carried_total", "Records copied forward from an old segment.", seen.carried);
  out.counter("once_journal_segments_dropped_total", "Segments removed.", seen.segments_dropped);
  out.limits = {{.setting = "journal.max_memory", .used = memory, .limit = settings_.max_memory},
                {.setting = "journal.max_disk", .used = seen.disk_bytes, .limit = settings_.max_disk}};
  return out;
}

}  // namespace once::journal
