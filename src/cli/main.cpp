// once: makes any HTTP API safe to retry.
#include <array>
#include <utility>

#include <CLI/CLI.hpp>

#include "cli/command.hpp"

int main(int argc, char** argv) {
  using namespace once::cli;
  CLI::App app("Once makes any HTTP API safe to retry: one request, one execution, the same answer every time.",
               "once");
  app.require_subcommand(1);
  app.footer("`once COMMAND --help` says more. `once demo` shows it at work.");
  const std::array<std::pair<const char*, Run>, 4> commands = {{{"serve", add_serve(app)},
                                                                {"check", add_check(app)},
                                                                {"config", add_config(app)},
                                                                {"version", add_version(app)}}};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  for (const auto& [name, run] : commands) {
    if (app.got_subcommand(name)) return run();
  }
  return 2;
}
