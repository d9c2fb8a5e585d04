// The store of a guard, opened, with what it needs to live.
#pragma once

#include <expected>
#include <memory>
#include <string>

#include <once/guard.hpp>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "store/journal/keeper.hpp"
#include "store/lane.hpp"
#include "store/sealed_store.hpp"
#include "store/server/sweeper.hpp"

namespace once::guard {

class Backing {
 public:
  static std::expected<std::unique_ptr<Backing>, OpenError> open(const Options& options, const Clock& clock,
                                                                 const Log& log);
  // Of a store that is open already, and needs nothing else.
  static std::unique_ptr<Backing> of(std::unique_ptr<Store> store);
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  Store& store() const { return sealed_ ? static_cast<Store&>(*sealed_) : *store_; }
  // Before the first op: the store tells of ends from now on.
  void start();
  Lanes& lanes() const { return *lanes_; }

 private:
  Backing() = default;
  std::expected<void, OpenError> open_plain(const Options& options, const Clock& clock, const Log& log);

  std::unique_ptr<Disk> disk_;
  std::unique_ptr<Store> store_;
  SystemRandom random_;                  // of the sealed store alone
  std::unique_ptr<SealedStore> sealed_;  // around it, if values are encrypted
  std::unique_ptr<JournalKeeper> keeper_;
  std::unique_ptr<Sweeper> sweeper_;
  std::size_t lane_count_ = 1;
  std::unique_ptr<ThreadLanes> lanes_;  // last: it uses all of the above
};

}  // namespace once::guard
