// The store that a configuration asks for, opened, with what it needs to live.
#pragma once

#include <memory>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "config/config.hpp"
#include "store/journal/journal_store.hpp"
#include "store/journal/keeper.hpp"
#include "store/memory/memory_store.hpp"

namespace once::cli {

class OpenedStore {
 public:
  static Result<OpenedStore> open(const Config& config, const Clock& clock, const Log& log);

  Store& store() const { return *store_; }
  // Null: it is another kind.
  const MemoryStore* memory() const { return memory_; }
  const JournalStore* journal() const { return journal_; }

 private:
  std::unique_ptr<Disk> disk_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<JournalKeeper> keeper_;
  const MemoryStore* memory_ = nullptr;
  const JournalStore* journal_ = nullptr;
};

// Where the journal of this configuration is, if that is its store.
std::string journal_folder(const Config& config);

}  // namespace once::cli
