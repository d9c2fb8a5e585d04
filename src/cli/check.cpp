#include <memory>

#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "config/prepare.hpp"
#include "config/reload.hpp"

namespace once::cli {

namespace {

// Compares with a gateway that was started with the file `before`. Returns whether that file is valid.
bool compare_with(const ServeOptions& options, const std::string& before, const Config& config) {
  ServeOptions others = options;
  others.config_file = before;
  auto running = load_config(others);
  if (running) {
    const Checked checked = check(*running);
    // Reads the files so that their contents are compared.
    static_cast<void>(read_files(*running));
    static_cast<void>(check_secrets(*running, environment_variable));
    if (!checked.errors.empty()) running = std::unexpected(checked.errors);
  }
  if (!running) {
    print_errors(running.error(), "error: --against");
    return false;
  }
  for (const std::string& name : needs_restart(*running, config)) {
    print_errors({{"", 0, 0, fmt::format("{}: changed, which needs a restart", name)}}, "warning");
  }
  for (const std::string& line : forgotten_keys(*running, config)) print_errors({{"", 0, 0, line}}, "warning");
  return true;
}

}  // namespace

Run add_check(CLI::App& app) {
  CLI::App* command = app.add_subcommand("check", "Report every mistake in a configuration");
  const auto options = std::make_shared<ServeOptions>();
  add_serve_options(*command, *options);
  command->add_option("file", options->config_file, "The configuration file, as with --config")
      ->type_name("FILE")
      ->excludes("--config");
  const auto against = std::make_shared<std::string>();
  command
      ->add_option("--against", *against,
                   "The file of a running gateway: report changes that need a restart, and keys that a reload would "
                   "lose")
      ->type_name("FILE");
  command->footer(
      "Takes the options of serve, and reports what serve would refuse. It reads certificates, keys, tokens and the "
      "secret in the environment of this command. Outside the service's environment, set ONCE_SECRET and the "
      "variables of env: settings to any value of 16 bytes. Write access to logs and folders is checked for the user "
      "of this command. Nothing is created, and no connection is made. `once reload --dry-run` asks a running "
      "gateway.\n"
      "Exit codes: 0 no mistakes (warnings may be printed), 2 mistakes in the configuration or an "
      "option.");
  return [options, against] {
    Loaded loaded = load_all_config(*options);
    if (!loaded.errors.empty()) {
      print_errors(all_mistakes(std::move(loaded), environment_variable), "error");
      return 2;
    }
    Config& config = loaded.config;
    const Checked checked = check_all(config, environment_variable);
    print_errors(checked.warnings, "warning");
    print_errors(checked.errors, "error");
    if (!checked.errors.empty()) return 2;
    if (!against->empty() && !compare_with(*options, *against, config)) return 2;
    print(fmt::format("ok: {} upstream{}, {} route{}\n", config.upstreams.size(),
                      config.upstreams.size() == 1 ? "" : "s", config.routes.size(),
                      config.routes.size() == 1 ? "" : "s"));
    return 0;
  };
}

}  // namespace once::cli
