// `once completion`, and `once manual`, which packages are built with and --help does not show.
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/manual.hpp"
#include "cli/output.hpp"

namespace once::cli {

namespace {

struct ManualOptions {
  std::string folder;
  std::string date;
};

int write_file(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return 0;
  print_error(fmt::format("cannot write {}", path.string()));
  return 1;
}

int write_manual(const CLI::App& app, const ManualOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error) {
    print_error(fmt::format("cannot make the folder {}: {}", options.folder, error.message()));
    return 1;
  }
  for (const Page& page : manual(app, options.date)) {
    if (const int code = write_file(std::filesystem::path(options.folder) / page.name, page.text); code != 0) {
      return code;
    }
  }
  return 0;
}

}  // namespace

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

Run add_manual(CLI::App& app) {
  CLI::App* command = app.add_subcommand("manual", "Write the manual pages");
  command->group("");
  const auto options = std::make_shared<ManualOptions>();
  command->add_option("folder", options->folder, "Where to")->required()->type_name("FOLDER");
  command->add_option("--date", options->date, "The date in the footer of every page")->type_name("DATE");
  return [&app, options] { return write_manual(app, *options); };
}

}  // namespace once::cli
