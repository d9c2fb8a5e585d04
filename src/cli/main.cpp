// once: makes any HTTP API safe to retry.
#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>

#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_tree.hpp"
#include "cli/output.hpp"

namespace once::cli {

namespace {

std::string command_mistake(std::string_view word, const CLI::App& parent, const std::string& path) {
  std::vector<std::string_view> names;
  for (const CLI::App* command : shown_commands(parent)) names.push_back(command->get_name());
  const std::string known = fmt::format("{}", fmt::join(names, ", "));
  if (word.empty()) return fmt::format("`{}` needs a command: {}", path, known);
  const auto meant = nearest(word, names);
  const std::string hint = meant ? fmt::format("did you mean \"{}\"? ", *meant) : "";
  return fmt::format("unknown command \"{}\"; {}`{}` has the commands {}", word, hint, path, known);
}

// The mistake in the words that name a command; empty: none. The option parser would only report unexpected arguments.
std::string mistake_in_commands(const CLI::App& app, std::span<char* const> words) {
  const CLI::App* at = &app;
  std::string path = app.get_name();
  for (const std::string_view word : words) {
    const auto inner = shown_commands(*at);
    if (inner.empty() || word.starts_with('-')) return "";
    const auto found = std::ranges::find_if(inner, [word](const CLI::App* each) { return each->get_name() == word; });
    if (found == inner.end()) return command_mistake(word, *at, path);
    at = *found;
    path.append(" ").append(word);
  }
  return shown_commands(*at).empty() ? "" : command_mistake("", *at, path);
}

// Memory contains secrets: prevent core dumps, and other processes of this user from reading it.
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
  const std::span<char* const> words(argv + 1, static_cast<std::size_t>(argc - 1));
  if (const std::string mistake = mistake_in_commands(app, words); !mistake.empty()) return usage_error(mistake);
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
  // Outcomes are kept for hours and freed by other threads than the one that made them. One arena that grows by
  // megabytes suits that; the default, one arena per thread that grows by pages, costs a system call and a page fault
  // every few requests.
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
