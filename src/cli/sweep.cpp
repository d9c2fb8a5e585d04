#include <unistd.h>

#include <memory>
#include <string>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "store/catalog/catalog.hpp"
#include "store/server/store_url.hpp"

namespace once::cli {

namespace {

constexpr std::chrono::seconds between_lines{1};

int sweep_all(ServerStore& store, std::size_t batch) {
  std::uint64_t removed = 0;
  std::chrono::nanoseconds reported_at = monotonic_now();
  while (true) {
    const auto swept = store.sweep(batch);
    if (!swept) {
      print_error(fmt::format("{} (after {} removed)", swept.error().detail, removed));
      return 1;
    }
    removed += swept->removed;
    if (swept->more == More::no) break;
    if (monotonic_now() - reported_at >= between_lines) {
      print(fmt::format("{} removed so far\n", removed));
      reported_at = monotonic_now();
    }
  }
  print(fmt::format("{} expired record{} removed\n", removed, removed == 1 ? "" : "s"));
  return 0;
}

int sweep(const ServeOptions& options) {
  const auto config = load_config(options);
  if (!config) {
    print_errors(config.error(), "error");
    return 2;
  }
  const StoreType* const type = find_store(config->store);
  // Only tables keep expired records until they are removed. The other stores do that themselves.
  if (type == nullptr || type->schema == nullptr) {
    print_error(
        fmt::format("{} needs no sweeping: it removes expired records itself", without_password(config->store)));
    return 2;
  }
  const SystemClock clock;
  const Log log(clock, STDERR_FILENO, config->log.level, config->log.format);
  ServerSettings settings = config->server;
  settings.connections = 1;
  const auto store = type->connect(config->store, settings, log);
  if (!store) {
    print_error(store.error().detail);
    return 1;
  }
  return sweep_all(**store, settings.sweep_batch);
}

}  // namespace

Run add_sweep(CLI::App& app) {
  CLI::App* command = app.add_subcommand("sweep", "Remove expired records from a SQL store now");
  const auto options = std::make_shared<ServeOptions>();
  command->add_option("--store", options->store, "postgres://… or mysql://…; required here or in the file")
      ->type_name("URL");
  add_config_option(*command, *options, "A configuration file");
  command->add_option("--set", options->set, "Any setting, such as server.timeout=30s; may be repeated")
      ->type_name("NAME=VALUE");
  command->footer(
      "Every gateway does this once a minute or more often. Use this command for your own timer, or for a backlog.\n"
      "It deletes in small transactions that do not block requests. Redis removes expired keys itself.\n"
      "Exit codes: 0 all expired records are removed, 1 the store failed, 2 wrong options or settings.");
  return [options] { return sweep(*options); };
}

}  // namespace once::cli
