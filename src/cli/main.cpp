// once: makes any HTTP API safe to retry.
#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <malloc.h>

#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"

namespace once::cli {

namespace {

std::string unknown_command(std::string_view word, const Commands& commands) {
  std::vector<std::string_view> names;
  for (const auto& [name, run] : commands) names.push_back(name);
  const auto meant = nearest(word, names);
  return fmt::format("unknown command \"{}\"; {}", word,
                     meant ? fmt::format("did you mean \"{}\"?", *meant) : "`once --help` lists all commands");
}

// Secrets are in memory: no core dump writes them to a disk, and no other process of this user reads them.
void keep_memory_private() {
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

int run(int argc, char** argv) {
  keep_memory_private();
  CLI::App app;
  const Commands commands = add_commands(app);
  if (argc < 2) {
    print(app.help());
    return 0;
  }
  const std::string_view first = argv[1];
  const auto is_first = [first](const auto& command) { return command.first == first; };
  if (!first.starts_with('-') && std::ranges::none_of(commands, is_first)) {
    print_error(unknown_command(first, commands));
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  for (const auto& [name, run] : commands) {
    if (app.got_subcommand(std::string(name))) return run();
  }
  return 2;
}

}  // namespace

}  // namespace once::cli

int main(int argc, char** argv) {
  // Outcomes are kept for hours and freed by other threads than made them. One arena that grows by megabytes suits
  // that; the default, an arena a thread that grows by the page, spends a system call and a page fault every few
  // requests.
  constexpr int heap_step = 16 << 20;
  ::mallopt(M_ARENA_MAX, 1);
  ::mallopt(M_TOP_PAD, heap_step);
  try {
    return once::cli::run(argc, argv);
  } catch (const std::exception& error) {
    std::fputs(error.what(), stderr);
    std::fputs("\n", stderr);
    return 1;
  }
}
