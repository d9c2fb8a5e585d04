// once_manual: writes the manual pages that packages install. A build tool, not installed itself.
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "cli/tools/man_pages.hpp"

namespace once::cli {

namespace {

bool write_page(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return static_cast<bool>(file);
}

int write_manual(int argc, char** argv) {
  std::string folder;
  std::string date;
  CLI::App tool("Writes the manual pages of once", "once_manual");
  tool.add_option("folder", folder, "Where to")->required()->type_name("FOLDER");
  tool.add_option("--date", date, "The text in the footer of every page")->type_name("DATE");
  CLI11_PARSE(tool, argc, argv);
  CLI::App app;
  const Commands commands = add_commands(app);
  std::filesystem::create_directories(folder);
  for (const Page& page : manual(app, date)) {
    const std::filesystem::path path = std::filesystem::path(folder) / page.name;
    if (write_page(path, page.text)) continue;
    print_error(fmt::format("cannot write {}", path.string()));
    return 1;
  }
  return 0;
}

}  // namespace

}  // namespace once::cli

int main(int argc, char** argv) {
  try {
    return once::cli::write_manual(argc, argv);
  } catch (const std::exception& error) {
    once::cli::print_error(error.what());
    return 1;
  }
}
