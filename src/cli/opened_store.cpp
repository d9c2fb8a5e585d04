#include "cli/opened_store.hpp"

#include "base/random.hpp"
#include "store/journal/system_disk.hpp"

namespace once::cli {

std::string journal_folder(const Config& config) {
  constexpr std::string_view prefix = "journal:";
  const std::string given = config.store.substr(prefix.size());
  return given.empty() ? config.data_dir + "/journal" : given;
}

Result<OpenedStore> OpenedStore::open(const Config& config, const Clock& clock, const Log& log) {
  OpenedStore opened;
  if (config.store == "memory:") {
    auto memory = std::make_unique<MemoryStore>(clock, MemoryLimits{.max_bytes = config.memory.max_bytes});
    opened.memory_ = memory.get();
    opened.store_ = std::move(memory);
    return opened;
  }
  opened.disk_ = std::make_unique<SystemDisk>(journal_folder(config));
  SystemRandom random;
  auto journal = JournalStore::open(*opened.disk_, clock, random, log, config.journal);
  if (!journal) return std::unexpected(journal.error());
  opened.journal_ = journal->get();
  opened.keeper_ = std::make_unique<JournalKeeper>(**journal);
  opened.store_ = std::move(*journal);
  return opened;
}

}  // namespace once::cli
