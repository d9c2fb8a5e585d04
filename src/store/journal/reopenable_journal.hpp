// A journal that can be closed and opened again while lanes, gateway and admin interface keep running. During a
// handover the process closes it for its successor, because only one process can open it, and opens it again if the
// successor fails. While it is closed, everything is refused and nothing changes.
#pragma once

#include <atomic>
#include <memory>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "store/exclusive.hpp"
#include "store/journal/journal_store.hpp"
#include "store/journal/keeper.hpp"
#include "store/journal/settings.hpp"
#include "store/search.hpp"
#include "store/store.hpp"

namespace once::journal {

class ReopenableJournal final : public Store, public Search, public Exclusive {
 public:
  ReopenableJournal(std::string folder, const Clock& clock, const Log& log, const JournalSettings& settings);

  // Reads the journal in the folder.
  Result<void> open(Duration patience) override;
  std::unique_ptr<Held> give_up() override;
  bool handed_over() const override { return closed() && !lost_.load(std::memory_order_relaxed); }
  bool closed() const override { return at_once_.load(std::memory_order_acquire) == nullptr; }

  void execute(std::span<Op* const> batch) override;
  bool answer_at_once(Op& op) override;
  std::size_t part_of(const OperationId& id) const override;
  Traits traits() const override {
    return {.durable = Durable::yes, .shared = Shared::no, .reclaims_within = reclaims_within(settings_)};
  }
  bool failed_for_good() const override;
  Search* search() override { return this; }
  StoreCondition condition() const override;
  StoreReport report() const override;
  Exclusive* exclusive() override { return this; }

  Result<KeyPage> scan(const KeyFilter& filter, std::string_view cursor, std::size_t limit) override;
  Result<KeyPage> find(const IdPrefix& prefix) override;
  Result<KeyPage> get(const OperationId& id) override;
  Result<KeyCounts> count(std::string_view cursor) override;

  // While it is closed: the last values.
  JournalStats stats() const;

 private:
  struct Opened {
    std::unique_ptr<Disk> disk;
    std::unique_ptr<JournalStore> store;
    std::unique_ptr<JournalKeeper> keeper;
  };
  struct Given;

  const std::string folder_;
  const Clock& clock_;
  const Log& log_;
  const JournalSettings settings_;

  // Locked (shared) by everything that uses the journal, except answer_at_once() and part_of(), which every request
  // calls.
  mutable std::shared_mutex mutex_;
  Opened opened_;
  JournalStats last_stats_;
  bool failed_ = false;             // it had already failed when it was closed, so callers do not wait for it
  std::atomic<bool> lost_ = false;  // the last open() failed
  std::atomic<JournalStore*> at_once_ = nullptr;
};

}  // namespace once::journal
