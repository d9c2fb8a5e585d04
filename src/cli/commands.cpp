#include "cli/command.hpp"

namespace once::cli {

Commands add_commands(CLI::App& app) {
  app.name("once");
  app.description("Once makes any HTTP API safe to retry: one request, one execution, the same response every time.");
  app.require_subcommand(1);
  app.set_version_flag("-V,--version", version_text(), "Print the version");
  Commands commands = {{{"demo", add_demo(app)},
                        {"serve", add_serve(app)},
                        {"check", add_check(app)},
                        {"config", add_config(app)},
                        {"health", add_health(app)},
                        {"journal", add_journal(app)},
                        {"keys", add_keys(app)},
                        {"reload", add_reload(app)},
                        {"schema", add_schema(app)},
                        {"send", add_send(app)},
                        {"sweep", add_sweep(app)},
                        {"simulate", add_simulate(app)},
                        {"completion", add_completion(app)},
                        {"version", add_version(app)}}};
  // Set the footer after the commands were added: otherwise they would inherit it.
  app.footer(
      "Start with `once demo`. `once COMMAND --help` and `man once-COMMAND` describe each command.\n"
      "Exit codes: 0 success, 1 failure, 2 wrong usage.");
  return commands;
}

}  // namespace once::cli
