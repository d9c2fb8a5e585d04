#include "store/journal/journal_type.hpp"

#include <utility>

#include "store/journal/reopenable_journal.hpp"

namespace once::journal {

namespace {

constexpr std::string_view journal_prefix = "journal:";

Result<std::unique_ptr<Store>> open_journal(const std::string& url, const StoreSettings& settings,
                                            const StorePorts& ports) {
  const std::string given = url.substr(journal_prefix.size());
  const std::string& folder = given.empty() ? settings.folder : given;
  if (folder.empty()) {
    return std::unexpected(Error{.source = ErrorSource::config,
                                 .retryable = Retryable::no,
                                 .detail = "the store names no folder: journal:FOLDER"});
  }
  auto journal = std::make_unique<ReopenableJournal>(folder, ports.clock, ports.log, settings.journal);
  if (auto read = journal->open(settings.patience); !read) return std::unexpected(read.error());
  return journal;
}

}  // namespace

constexpr StoreType journal_type = {
    .name = "journal",
    .form = "journal:FOLDER",
    .settings = {"journal"},
    .place = StorePlace::folder,
    .durable = Durable::yes,
    .open = open_journal,
    .capacity = [](const StoreSettings& settings) { return settings.journal.max_disk; },
};

}  // namespace once::journal
