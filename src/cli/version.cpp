#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/output.hpp"

namespace once::cli {

std::string version_text() {
  return fmt::format("once {}", ONCE_VERSION);
}

Run add_version(CLI::App& app) {
  app.add_subcommand("version", "Print the version");
  return [] {
    print(version_text() + "\n");
    return 0;
  };
}

}  // namespace once::cli
