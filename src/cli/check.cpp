#include <memory>

#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "config/finish.hpp"

namespace once::cli {

Run add_check(CLI::App& app) {
  CLI::App* command = app.add_subcommand("check", "Report every mistake in a configuration, without serving it");
  const auto options = std::make_shared<ServeOptions>();
  add_serve_options(*command, *options);
  command->footer(
      "Takes the options of serve. Certificates, keys, tokens and the secret are read; nothing else is opened, "
      "resolved or written.\n"
      "Exit codes: 0 it can be served (warnings may be printed), 2 it, or an option, has mistakes. As of serve.");
  return [options] {
    auto config = load_config(*options);
    if (!config) {
      print_errors(config.error(), "error");
      return 2;
    }
    const Checked checked = check(*config);
    const Checked files = read_files(*config);
    const Checked secrets = check_secrets(*config, environment_variable);
    for (const Checked* part : {&checked, &files, &secrets}) print_errors(part->warnings, "warning");
    for (const Checked* part : {&checked, &files, &secrets}) print_errors(part->errors, "error");
    if (!checked.errors.empty() || !files.errors.empty() || !secrets.errors.empty()) return 2;
    print(fmt::format("ok: {} upstream{}, {} route{}\n", config->upstreams.size(),
                      config->upstreams.size() == 1 ? "" : "s", config->routes.size(),
                      config->routes.size() == 1 ? "" : "s"));
    return 0;
  };
}

}  // namespace once::cli
