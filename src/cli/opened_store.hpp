// Opens the store of a configuration, with everything it depends on.
#pragma once

#include <memory>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "config/config.hpp"
#include "store/journal/reopenable_journal.hpp"
#include "store/memory/memory_store.hpp"
#include "store/sealed_store.hpp"
#include "store/server/server_store.hpp"
#include "store/server/sweeper.hpp"

namespace once::cli {

class OpenedStore {
 public:
  // `patience`: how long a journal is waited for that another process still has.
  static Result<OpenedStore> open(const Config& config, const Clock& clock, const Log& log, Duration patience);

  Store& store() const { return sealed_ ? static_cast<Store&>(*sealed_) : *store_; }
  // Null: it is another kind.
  const MemoryStore* memory() const { return memory_; }
  ReopenableJournal* journal() const { return journal_; }
  ServerStore* server() const { return server_; }

  // How many batches it may execute at once.
  std::size_t lanes() const { return lanes_; }

 private:
  static Result<OpenedStore> open_plain(const Config& config, const Clock& clock, const Log& log, Duration patience);

  std::unique_ptr<Store> store_;
  std::unique_ptr<Random> random_;
  std::unique_ptr<SealedStore> sealed_;  // around it, if outcomes are encrypted
  std::unique_ptr<Sweeper> sweeper_;
  const MemoryStore* memory_ = nullptr;
  ReopenableJournal* journal_ = nullptr;
  ServerStore* server_ = nullptr;
  std::size_t lanes_ = 1;
};

}  // namespace once::cli
