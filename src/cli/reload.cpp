#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/admin_client.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"

namespace once::cli {

namespace {

struct ReloadOptions {
  AdminOptions admin;
  bool dry_run = false;
};

int reload(const ReloadOptions& options) {
  const AdminAnswer answer = ask_admin(options.admin, "POST", options.dry_run ? "/v1/reload?dry_run=1" : "/v1/reload");
  if (answer.status == 200) {
    print(answer.body);
    return 0;
  }
  print_error(answer.status == 0 ? answer.error : fmt::format("nothing was changed:\n{}", answer.error));
  return answer.usage ? 2 : 1;
}

}  // namespace

Run add_reload(CLI::App& app) {
  CLI::App* command = app.add_subcommand("reload", "Make a running gateway read its configuration again");
  const auto options = std::make_shared<ReloadOptions>();
  add_admin_options(*command, options->admin);
  command->add_flag("--dry-run", options->dry_run, "Report what a reload would do, and change nothing");
  command->footer(
      "Like SIGHUP, but it waits for the result and reports mistakes. New requests use the new settings; running "
      "requests finish with the old ones. If the file has a mistake, or a changed setting needs a restart, nothing "
      "is changed. If a route's keys would be lost, because caller, scope or another part of their identity changed, "
      "it warns with the route and the setting.\n"
      "Exit codes: 0 reloaded (warnings may be printed), 1 refused or no answer, 2 wrong options.");
  return [options] { return reload(*options); };
}

}  // namespace once::cli
