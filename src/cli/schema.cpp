#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "store/catalog/catalog.hpp"
#include "store/server/store_url.hpp"

namespace once::cli {

namespace {

struct SchemaOptions {
  std::string url;
  std::string procedures = "on";
};

int run(const StoreType& type, const SchemaOptions& options) {
  const StoreSchema& schema = *type.schema;
  if (options.url.empty()) {
    print(options.procedures == "off" ? schema.plain_script() : schema.script());
    return 0;
  }
  if (find_store(options.url) != &type) {
    print_error(fmt::format("--apply needs a {}:// URL here", type.name));
    return 2;
  }
  if (const auto url = parse_store_url(options.url); !url) {
    print_error(url.error().detail);
    return 2;
  }
  const auto applied = schema.apply(options.url, ServerSettings());
  if (!applied) {
    print_error(fmt::format("{}: {}", without_password(options.url), applied.error().detail));
    return 1;
  }
  print(*applied + "\n");
  return 0;
}

CLI::App* add_store(CLI::App& parent, const StoreType& type, const std::shared_ptr<SchemaOptions>& options) {
  CLI::App* command = parent.add_subcommand(std::string(type.name), fmt::format("For {}", type.schema->server));
  CLI::Option* apply =
      command
          ->add_option(
              "--apply", options->url,
              "Apply the schema instead of printing it, to an empty database or the version before; safe to repeat")
          ->type_name("URL");
  if (type.schema->plain_script != nullptr) {
    command
        ->add_option("--procedures", options->procedures,
                     "off: print the schema without stored procedures, for TiDB, Vitess and services that forbid them. "
                     "With --apply the URL says it: mysql://HOST/DATABASE?procedures=off")
        ->type_name("on|off")
        ->check([](const std::string& value) {
          return value == "on" || value == "off" ? std::string() : std::string("must be on or off");
        })
        ->excludes(apply);
  }
  return command;
}

}  // namespace

Run add_schema(CLI::App& app) {
  CLI::App* command = app.add_subcommand("schema", "Print or apply the tables and functions that a SQL store needs");
  command->require_subcommand(1);
  const auto options = std::make_shared<SchemaOptions>();
  std::vector<std::pair<const CLI::App*, const StoreType*>> stores;
  for (const StoreType* type : store_types()) {
    if (type->schema != nullptr) stores.emplace_back(add_store(*command, *type, options), type);
  }
  command->footer(
      "Gateways do not create tables. The owner of the database does, with this command, before the first start and "
      "before an\n"
      "upgrade that requires it. Without --apply no connection is made.\n"
      "Exit codes: 0 printed or applied, 1 the database refused it, 2 wrong options.");
  return [options, stores] {
    const auto chosen = std::ranges::find_if(stores, [](const auto& each) { return each.first->parsed(); });
    return run(*chosen->second, *options);
  };
}

}  // namespace once::cli
