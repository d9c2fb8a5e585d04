#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/output.hpp"

namespace once::cli {

Run add_version(CLI::App& app) {
  app.add_subcommand("version", "Print the version");
  return [] {
    print(fmt::format("once {}\n", ONCE_VERSION));
    return 0;
  };
}

}  // namespace once::cli
