#include "guard/backing.hpp"

#include <utility>

#include "store/journal/system_disk.hpp"
#include "store/memory/memory_store.hpp"
#include "store/server/open_server.hpp"

namespace once::guard {

namespace {

constexpr std::string_view journal_prefix = "journal:";

std::unexpected<OpenError> refused(std::string detail) {
  return std::unexpected(OpenError{std::move(detail)});
}

}  // namespace

std::expected<std::unique_ptr<Backing>, OpenError> Backing::open(const Options& options, const Clock& clock,
                                                                 const Log& log) {
  std::unique_ptr<Backing> backing(new Backing());
  if (auto opened = backing->open_plain(options, clock, log); !opened) return std::unexpected(opened.error());
  if (!options.encryption_secrets.empty()) {
    backing->sealed_ =
        std::make_unique<SealedStore>(*backing->store_, options.encryption_secrets, backing->random_, log);
  }
  return backing;
}

std::unique_ptr<Backing> Backing::of(std::unique_ptr<Store> store) {
  std::unique_ptr<Backing> backing(new Backing());
  backing->store_ = std::move(store);
  return backing;
}

std::expected<void, OpenError> Backing::open_plain(const Options& options, const Clock& clock, const Log& log) {
  const ServerSettings settings{.connections = options.connections, .timeout = options.store_timeout};
  auto server = open_server(options.store, settings, log);
  if (!server) return refused(std::move(server.error().detail));
  if (*server) {
    lane_count_ = settings.connections;
    sweeper_ = std::make_unique<Sweeper>(**server, settings, log);
    store_ = std::move(*server);
    return {};
  }
  if (options.store == "memory:") {
    store_ = std::make_unique<MemoryStore>(clock, MemoryLimits{.max_bytes = options.memory_bytes});
    return {};
  }
  const std::string folder =
      options.store.starts_with(journal_prefix) ? options.store.substr(journal_prefix.size()) : "";
  if (folder.empty()) {
    return refused("the store must be memory:, journal:DIR, redis://…, postgres://… or mysql://…");
  }
  disk_ = std::make_unique<SystemDisk>(folder);
  SystemRandom random;
  auto journal = JournalStore::open(*disk_, clock, random, log, JournalSettings());
  if (!journal) return refused(std::move(journal.error().detail));
  keeper_ = std::make_unique<JournalKeeper>(**journal);
  store_ = std::move(*journal);
  return {};
}

void Backing::start() {
  lanes_ = std::make_unique<ThreadLanes>(store(), LaneLimits{.lanes = lane_count_});
}

}  // namespace once::guard
