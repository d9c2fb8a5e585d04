// A health check for containers, which have no curl.
#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/admin_client.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"

namespace once::cli {

namespace {

struct HealthOptions {
  AdminOptions admin = {
      .admin = "127.0.0.1:8081", .token_file = {}, .timeout = std::chrono::seconds(3), .token = Token::none};
  bool ready = false;
};

int health(const HealthOptions& options) {
  const std::string path = options.ready ? "/readyz" : "/healthz";
  const AdminAnswer answer = ask_admin(options.admin, "GET", path);
  if (answer.status == 200) return 0;
  print_error(answer.status == 0 ? answer.error
                                 : fmt::format("{} answers {} to {}", options.admin.admin, answer.status, path));
  return answer.usage ? 2 : 1;
}

}  // namespace

Run add_health(CLI::App& app) {
  CLI::App* command = app.add_subcommand("health", "Check the health of a running gateway");
  const auto options = std::make_shared<HealthOptions>();
  add_admin_address(*command, options->admin);
  command->add_flag("--ready", options->ready, "Check readiness (/readyz) instead of liveness (/healthz)");
  command->footer("Exit codes: 0 healthy, 1 unhealthy or no answer within 3 seconds, 2 wrong options.");
  return [options] { return health(*options); };
}

}  // namespace once::cli
