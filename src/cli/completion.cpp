#include "cli/command.hpp"
#include "cli/command_tree.hpp"
#include "cli/output.hpp"

namespace once::cli {

Run add_completion(CLI::App& app) {
  CLI::App* command = app.add_subcommand("completion", "Print the completion script of a shell");
  command->require_subcommand(1);
  const CLI::App* bash = command->add_subcommand("bash", "For bash: eval \"$(once completion bash)\"");
  const CLI::App* zsh = command->add_subcommand("zsh", "For zsh: eval \"$(once completion zsh)\", after compinit");
  command->add_subcommand("fish", "For fish: once completion fish | source");
  command->footer(
      "The Debian package installs all three.\n"
      "Exit codes: 0 printed, 2 wrong options.");
  return [&app, bash, zsh] {
    print(bash->parsed() ? bash_completion(app) : zsh->parsed() ? zsh_completion(app) : fish_completion(app));
    return 0;
  };
}

}  // namespace once::cli
