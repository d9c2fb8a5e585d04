#include <memory>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "config/reference.hpp"

namespace once::cli {

Run add_config(CLI::App& app) {
  CLI::App* command = app.add_subcommand("config", "Print every setting with its default, as a configuration file");
  const auto markdown = std::make_shared<bool>(false);
  command->add_flag("--markdown", *markdown, "As the reference page, docs/configuration.md");
  command->footer("A good start for a file of your own: once config > once.yaml");
  return [markdown] {
    print(*markdown ? reference_markdown() : reference_yaml());
    return 0;
  };
}

}  // namespace once::cli
