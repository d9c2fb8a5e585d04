#include <memory>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "config/json_schema.hpp"
#include "config/reference.hpp"

namespace once::cli {

Run add_config(CLI::App& app) {
  CLI::App* command = app.add_subcommand("config", "Print every setting with its default, as a configuration file");
  const auto markdown = std::make_shared<bool>(false);
  command->add_flag("--markdown", *markdown, "Print the reference, the pages of docs/reference/configuration");
  const auto schema = std::make_shared<bool>(false);
  command->add_flag("--schema", *schema, "Print a JSON schema for editors, docs/reference/once.schema.json");
  command->footer(
      "To start your own file: once config > once.yaml\n"
      "A YAML editor can check and complete the file with a first line such as\n"
      "# yaml-language-server: $schema=/usr/share/once/once.schema.json");
  return [markdown, schema] {
    if (*markdown) {
      for (const ReferencePage& page : reference_pages()) print(page.text + "\n");
    } else {
      print(*schema ? json_schema() : reference_yaml());
    }
    return 0;
  };
}

}  // namespace once::cli
