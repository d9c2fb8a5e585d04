#include "cli/opened_store.hpp"

#include "base/random.hpp"
#include "config/finish.hpp"
#include "store/server/open_server.hpp"

namespace once::cli {

Result<OpenedStore> OpenedStore::open(const Config& config, const Clock& clock, const Log& log, Duration patience) {
  auto opened = open_plain(config, clock, log, patience);
  if (!opened || config.sealing_secrets.empty()) return opened;
  opened->random_ = std::make_unique<SystemRandom>();
  opened->sealed_ = std::make_unique<SealedStore>(*opened->store_, config.sealing_secrets, *opened->random_, log);
  return opened;
}

Result<OpenedStore> OpenedStore::open_plain(const Config& config, const Clock& clock, const Log& log,
                                            Duration patience) {
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
  auto journal = std::make_unique<ReopenableJournal>(journal_folder(config), clock, log, config.journal);
  if (auto read = journal->open(patience); !read) return std::unexpected(read.error());
  opened.journal_ = journal.get();
  opened.store_ = std::move(journal);
  return opened;
}

}  // namespace once::cli
