// A subcommand of `once`. Each is in its own file, which adds it to the command line.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "config/load.hpp"

namespace once::cli {

// 0: success; 1: failure; 2: wrong usage. Each command's --help has the details.
using Run = std::function<int()>;

// Adds the subcommand to `app` and returns what to run if it was chosen.
Run add_serve(CLI::App& app);
Run add_demo(CLI::App& app);
Run add_check(CLI::App& app);
Run add_completion(CLI::App& app);
Run add_config(CLI::App& app);
Run add_health(CLI::App& app);
Run add_journal(CLI::App& app);
Run add_keys(CLI::App& app);
Run add_reload(CLI::App& app);
Run add_schema(CLI::App& app);
Run add_send(CLI::App& app);
Run add_sweep(CLI::App& app);
Run add_simulate(CLI::App& app);
Run add_version(CLI::App& app);
std::string version_text();

// All commands by name, with the description and the footer of the program.
using Commands = std::array<std::pair<std::string_view, Run>, 14>;
Commands add_commands(CLI::App& app);

// The options that determine the configuration; shared by `serve` and `check`. `demo` uses those without a backend or a
// file.
struct ServeOptions {
  std::string config_file;
  std::string upstream;
  std::string listen;
  std::string admin;
  std::string store;
  std::string threads;
  std::vector<std::string> set;
};
void add_config_option(CLI::App& command, ServeOptions& options, const std::string& description);
void add_listen_options(CLI::App& command, ServeOptions& options);
void add_serve_options(CLI::App& command, ServeOptions& options);

// Merges file and options; the errors contain every mistake.
Loaded load_all_config(const ServeOptions& options);
std::expected<Config, ConfigErrors> load_config(const ServeOptions& options);

// An Environ for this process.
std::optional<std::string> environment_variable(std::string_view name);

}  // namespace once::cli
