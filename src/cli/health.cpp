// For containers, which have no curl: their health check is a command.
#include <memory>
#include <stop_token>
#include <string>

#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "client/curl_transport.hpp"
#include "config/codec.hpp"

namespace once::cli {

namespace {

constexpr Duration answer_limit = std::chrono::seconds(3);

struct HealthOptions {
  std::string admin = "127.0.0.1:8081";
  bool ready = false;
};

int health(const HealthOptions& options) {
  if (!parse_address(options.admin)) {
    print_error(fmt::format("--admin: {}", not_expected("an address such as 127.0.0.1:8081", options.admin).error()));
    return 2;
  }
  const std::string path = options.ready ? "/readyz" : "/healthz";
  const client::Request request{.method = "GET", .url = fmt::format("http://{}{}", options.admin, path)};
  const client::Options limits;
  client::CurlTransport transport;
  const client::Tried tried = transport.perform(
      {.request = request, .headers = {}, .options = limits, .timeout = answer_limit}, std::stop_token());
  const int status = tried.answer.status;
  if (status == 200) return 0;
  if (status == 0) {
    print_error(fmt::format("nobody answers at {}: {}", options.admin, tried.detail));
  } else {
    print_error(fmt::format("{} answers {} to {}", options.admin, status, path));
  }
  return 1;
}

}  // namespace

Run add_health(CLI::App& app) {
  CLI::App* command = app.add_subcommand("health", "Ask a running gateway whether it is well, for health checks");
  const auto options = std::make_shared<HealthOptions>();
  command->add_option("--admin", options->admin, "The gateway's admin address; the default is 127.0.0.1:8081")
      ->type_name("HOST:PORT");
  command->add_flag("--ready", options->ready,
                    "Whether it takes requests (/readyz), not only whether it lives (/healthz)");
  command->footer("Exit codes: 0 it is, 1 it is not or nobody answers within 3 seconds, 2 wrong options.");
  return [options] { return health(*options); };
}

}  // namespace once::cli
