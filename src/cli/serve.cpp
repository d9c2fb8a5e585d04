#include <cstdlib>
#include <memory>
#include <string>

#include "base/random.hpp"
#include "cli/command.hpp"
#include "cli/handover.hpp"
#include "cli/hidden_values.hpp"
#include "cli/output.hpp"
#include "cli/running.hpp"
#include "config/prepare.hpp"

namespace once::cli {

namespace {

// Merges file, options and secrets.
std::expected<Config, ConfigErrors> read_config(const ServeOptions& options, ConfigErrors& warnings) {
  Loaded loaded = load_all_config(options);
  if (!loaded.errors.empty()) return std::unexpected(all_mistakes(std::move(loaded), environment_variable));
  SystemRandom random;
  auto prepared = prepare(loaded.config, environment_variable, random);
  if (!prepared) return std::unexpected(std::move(prepared.error()));
  warnings = *std::move(prepared);
  return std::move(loaded.config);
}

int serve(const ServeOptions& options) {
  hold_signals();
  ConfigErrors warnings;
  const auto config = read_config(options, warnings);
  if (!config) {
    print_errors(config.error(), "error");
    return 2;
  }
  print_errors(warnings, "warning");
  auto origin = origin_of_process();
  if (!origin) {
    print_error(origin.error().detail);
    return 1;
  }
  block_signals();
  Running running(*config, {.reread = [options](ConfigErrors& found) { return read_config(options, found); },
                            .command = own_command(),
                            .origin = *std::move(origin)});
  if (const auto started = running.start(); !started) {
    print_error(started.error().detail);
    return started.error().source == ErrorSource::config ? 2 : 1;
  }
  return running.wait();
}

}  // namespace

// Refuses an empty name: it usually comes from a variable that is not set, and serving without the file would ignore
// its rules.
void add_config_option(CLI::App& command, ServeOptions& options, const std::string& description) {
  const auto named = [](const std::string& file) { return file.empty() ? "the name of the file is empty" : ""; };
  command.add_option("--config", options.config_file, description)->type_name("FILE")->check(CLI::Validator(named, ""));
}

void add_listen_options(CLI::App& command, ServeOptions& options) {
  command
      .add_option("--listen", options.listen,
                  "The address for clients; the default is 127.0.0.1:8080, port 0 picks a free port")
      ->type_name("HOST:PORT");
  command
      .add_option("--admin", options.admin,
                  "The address for the dashboard, /healthz, /readyz and /metrics, or off; the default is "
                  "127.0.0.1:8081")
      ->type_name("HOST:PORT");
  command
      .add_option("--store", options.store,
                  "The store: " + store_forms() + "; the default is a journal in ./once-data/journal")
      ->type_name("SPEC");
  command.add_option("--threads", options.threads, "Threads that serve requests; the default is auto, one per core")
      ->type_name("N");
  command
      .add_option("--set", options.set,
                  "Any setting, such as defaults.ttl=48h; repeatable; overrides the file and other options")
      ->type_name("NAME=VALUE");
}

void add_serve_options(CLI::App& command, ServeOptions& options) {
  command
      .add_option("--upstream", options.upstream,
                  "The backend, such as http://HOST:PORT[/BASE] or https://…; required here or in the file")
      ->type_name("URL");
  add_config_option(command, options, "A configuration file; `once config` prints one with every setting");
  add_listen_options(command, options);
}

std::optional<std::string> environment_variable(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr) return std::nullopt;
  hide_value(name, value);
  return value;
}

Loaded load_all_config(const ServeOptions& options) {
  std::vector<Override> overrides;
  const auto add = [&overrides](std::string_view flag, std::string_view setting, const std::string& value) {
    if (!value.empty())
      overrides.push_back({.flag = std::string(flag), .setting = std::string(setting), .value = value});
  };
  add("--listen", "listen", options.listen);
  add("--admin", "admin", options.admin);
  add("--store", "store", options.store);
  add("--threads", "threads", options.threads);
  add("--upstream", "upstreams.default", options.upstream);
  for (const std::string& text : options.set) {
    auto parsed = parse_override(text);
    if (!parsed) return {.config = {}, .errors = {parsed.error()}, .complete = false};
    overrides.push_back(std::move(*parsed));
  }
  return load_all(options.config_file, overrides, environment_variable);
}

std::expected<Config, ConfigErrors> load_config(const ServeOptions& options) {
  Loaded loaded = load_all_config(options);
  if (!loaded.errors.empty()) return std::unexpected(std::move(loaded.errors));
  return std::move(loaded.config);
}

Run add_serve(CLI::App& app) {
  CLI::App* command = app.add_subcommand("serve", "Run the gateway in front of a backend");
  const auto options = std::make_shared<ServeOptions>();
  add_serve_options(*command, *options);
  command->footer(
      "SIGTERM or Ctrl-C: accept no new connections, and give running requests timeouts.drain (70s) to finish. A "
      "second signal ends at once. With timeouts.drain_delay, only /readyz fails during that time first.\n"
      "SIGHUP, or once reload: read the configuration again; if it is valid, new requests use it.\n"
      "SIGUSR1: reopen log.access_file, for logrotate.\n"
      "SIGUSR2: start the program again with the same options and hand over to it; no connection is dropped.\n"
      "Without --store the journal in data_dir is used: records survive a restart, and one process at a time can "
      "open it.\n"
      "The secret for hashing keys is read from ONCE_SECRET or secret_file, or generated and kept in data_dir.\n"
      "Exit codes: 0 stopped by a signal, 1 could not start, 2 wrong options or settings.");
  return [options] { return serve(*options); };
}

}  // namespace once::cli
