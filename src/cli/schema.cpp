#include "store/mysql/schema.hpp"

#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "store/postgres/schema.hpp"
#include "store/server/store_url.hpp"

namespace once::cli {

namespace {

struct SchemaOptions {
  std::string url;
  bool retire_older = false;
};

struct Dialect {
  std::string_view name;
  StoreKind kind;
  std::string (*script)();
  Result<std::string> (*apply)(const SchemaOptions& options);
};

Result<std::string> apply_postgres(const SchemaOptions& options) {
  const auto older = options.retire_older ? postgres::OlderPrograms::retired : postgres::OlderPrograms::stay;
  return postgres::apply_schema(options.url, ServerSettings(), older);
}

Result<std::string> apply_mysql(const SchemaOptions& options) {
  return mysql::apply_schema(options.url, ServerSettings());
}

constexpr Dialect postgres_dialect = {"postgres", StoreKind::postgres, postgres::schema_script, apply_postgres};
constexpr Dialect mysql_dialect = {"mysql", StoreKind::mysql, mysql::schema_script, apply_mysql};

int run(const Dialect& dialect, const SchemaOptions& options) {
  if (options.url.empty()) {
    print(dialect.script());
    return 0;
  }
  if (store_kind(options.url) != dialect.kind) {
    print_error(fmt::format("--apply needs a {}:// URL here", dialect.name));
    return 2;
  }
  if (const auto url = parse_store_url(options.url); !url) {
    print_error(url.error().detail);
    return 2;
  }
  const auto applied = dialect.apply(options);
  if (!applied) {
    print_error(fmt::format("{}: {}", without_password(options.url), applied.error().detail));
    return 1;
  }
  print(*applied + "\n");
  return 0;
}

CLI::App* add_dialect(CLI::App& parent, const Dialect& dialect, const std::string& server,
                      const std::shared_ptr<SchemaOptions>& options) {
  CLI::App* command = parent.add_subcommand(std::string(dialect.name), "For " + server);
  command
      ->add_option("--apply", options->url,
                   "Apply the schema instead of printing it, to an empty database or an older version; safe to repeat")
      ->type_name("URL");
  return command;
}

}  // namespace

Run add_schema(CLI::App& app) {
  CLI::App* command = app.add_subcommand("schema", "Print or apply the tables and functions that a SQL store needs");
  command->require_subcommand(1);
  const auto options = std::make_shared<SchemaOptions>();
  CLI::App* chosen = add_dialect(*command, postgres_dialect, "PostgreSQL", options);
  chosen
      ->add_flag(
          "--retire-older", options->retire_older,
          "With --apply: finish an upgrade. Gateways for an older revision can no longer use this database, and this "
          "revision uses what they could not; make sure that none is running")
      ->needs(chosen->get_option("--apply"));
  add_dialect(*command, mysql_dialect, "MySQL and MariaDB", options);
  command->footer(
      "Gateways do not create tables. The owner of the database does, with this command, before the first start and "
      "before an\n"
      "upgrade that requires it. Without --apply no connection is made.\n"
      "Exit codes: 0 printed or applied, 1 the database refused it, 2 wrong options.");
  return [options, chosen] { return run(chosen->parsed() ? postgres_dialect : mysql_dialect, *options); };
}

}  // namespace once::cli
