#include "cli/command.hpp"
#include "cli/command_tree.hpp"
#include "cli/output.hpp"

namespace once::cli {

Run add_completion(CLI::App& app) {
  CLI::App* command = app.add_subcommand("completion", "Print the completion script of a shell");
  command->require_subcommand(1);
  command->add_subcommand("bash", "For bash: eval \"$(once completion bash)\"");
  command->footer(
      "The Debian package installs it.\n"
      "Exit codes: 0 printed, 2 wrong options.");
  return [&app] {
    print(bash_completion(app));
    return 0;
  };
}

}  // namespace once::cli
