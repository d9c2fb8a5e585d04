#include "cli/opened_store.hpp"

#include "base/random.hpp"
#include "store/journal/system_disk.hpp"
#include "store/server/open_server.hpp"

namespace once::cli {

std::string journal_folder(const Config& config) {
  constexpr std::string_view prefix = "journal:";
  const std::string given = config.store.substr(prefix.size());
  return given.empty() ? config.data_dir + "/journal" : given;
}

Result<OpenedStore> OpenedStore::open(const Config& config, const Clock& clock, const Log& log) {
  auto opened = open_plain(config, clock, log);
  if (!opened || config.sealing_secrets.empty()) return opened;
  opened->random_ = std::make_unique<SystemRandom>();
  opened->sealed_ = std::make_unique<SealedStore>(*opened->store_, config.sealing_secrets, *opened->random_, log);
  return opened;
}

Result<OpenedStore> OpenedStore::open_plain(const Config& config, const Clock& clock, const Log& log) {
  OpenedStore opened;
  auto server = open_server(config.store, config.server, log);
  if (!server) return std::unexpected(server.error());
  if (*server) {
    opened.server_ = server->get();
    opened.store_ = std::move(*server);
    opened.lanes_ = config.server.connections;
    opened.sweeper_ = std::make_unique<Sweeper>(*opened.server_, config.server, log);
    return opened;
  }
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
