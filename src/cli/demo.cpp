#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/random.hpp"
#include "cli/command.hpp"
#include "cli/demo_backend.hpp"
#include "cli/output.hpp"
#include "cli/running.hpp"
#include "config/prepare.hpp"

namespace once::cli {

namespace {

// Temporary, so that the demo leaves no files behind.
class DemoFolder {
 public:
  DemoFolder() {
    std::error_code error;
    std::string pattern = (std::filesystem::temp_directory_path(error) / "once-demo-XXXXXX").string();
    if (!error && ::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~DemoFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  DemoFolder(const DemoFolder&) = delete;
  DemoFolder& operator=(const DemoFolder&) = delete;

  // A journal if the folder could be made, else memory.
  std::string store() const { return path_.empty() ? "memory:" : "journal:" + path_; }

 private:
  std::string path_;
};

// A fixed secret is enough for the demo, which has no data to protect.
std::optional<std::string> demo_environment(std::string_view name) {
  if (name == "ONCE_SECRET") return "the demo has no secrets";
  return std::nullopt;
}

// Every request is shown as it is served; the log shows only errors. The user's options override these.
ServeOptions demo_options(const ServeOptions& given, const std::string& backend, const DemoFolder& folder) {
  ServeOptions options = given;
  if (options.store.empty()) options.store = folder.store();
  options.upstream = "http://" + backend;
  options.set = {"log.access=yes", "log.level=warn", "defaults.caller_missing=anonymous"};
  options.set.insert(options.set.end(), given.set.begin(), given.set.end());
  return options;
}

std::string pay_line(std::string_view base, std::string_view key, std::string_view query = "") {
  const std::string url =
      query.empty() ? fmt::format("{}/payments", base) : fmt::format("'{}/payments{}'", base, query);
  return fmt::format(R"(curl -i --json '{{"amount": 4200, "currency": "EUR"}}' -H 'Idempotency-Key: {}' {})", key, url);
}

std::string explanation(const Running& running, const DemoBackend& backend) {
  const std::string base = "http://" + running.address();
  const std::string pay = pay_line(base, "order-1");
  const std::string admin = running.admin_address();
  std::string text = fmt::format(
      "\n"
      "  you ──▶ Once {} ──▶ a payments API {}\n",
      base, "http://" + backend.address());
  if (!admin.empty()) {
    text += fmt::format("          dashboard http://{}/  metrics http://{}/metrics\n", admin, admin);
  }
  text += fmt::format(
      "\n"
      "Pay, list the payments, and pay again with the same key. Paste into another terminal:\n\n"
      "  {}\n"
      "  curl {}/payments\n"
      "  {}\n\n"
      "The third response equals the first one, marked Idempotency-Replayed: true. One payment was made.\n\n"
      "Failures. Send each of these twice:\n\n",
      pay, base, pay);
  struct Row {
    std::string_view key;
    std::string_view query;
    std::string_view what;
  };
  static constexpr Row rows[] = {
      {"order-2", "?mode=slow", "takes 2 s; a retry during or after that gets the same response"},
      {"order-3", "?mode=fail", "500, then works: a failure is not replayed"},
      {"order-4", "?mode=flaky",
       "pays and drops the connection: 502, then 409 until an operator has looked; never a second payment"},
      {"order-5", "?mode=refuse", "429 each time: the backend did nothing, so the key stays free"},
  };
  for (const Row& row : rows) {
    text += fmt::format("  # {}\n  {}\n", row.what, pay_line(base, row.key, row.query));
  }
  return text + "\nEach request is logged below. Ctrl-C ends the demo.\n\n";
}

// Suggests another port. The likely reason of the failure is a port in use, which the error has named.
void suggest_other_port(const Running& running) {
  const bool gateway_listens = !running.address().empty();
  print_error(gateway_listens ? "choose another address with --admin HOST:PORT, a free one with --admin 127.0.0.1:0, "
                                "or none with --admin off"
                              : "choose another address with --listen HOST:PORT, or a free one with --listen "
                                "127.0.0.1:0");
}

int serve_demo(const Config& config, const DemoBackend& backend) {
  Running running(config);
  if (const auto started = running.start(); !started) {
    print_error(started.error().detail);
    suggest_other_port(running);
    return 1;
  }
  print(explanation(running, backend));
  return running.wait();
}

int demo(const ServeOptions& given) {
  block_signals();
  DemoBackend backend;  // destroyed after the gateway: draining requests still need it
  if (const auto started = backend.start(); !started) {
    print_error(started.error().detail);
    return 1;
  }
  const DemoFolder folder;  // destroyed after the store in it
  auto config = load_config(demo_options(given, backend.address(), folder));
  if (!config) {
    print_errors(config.error(), "error");
    return 2;
  }
  SystemRandom random;
  const auto warnings = prepare(*config, demo_environment, random);
  if (!warnings) {
    print_errors(warnings.error(), "error");
    return 2;
  }
  print_errors(*warnings, "warning");
  const int code = serve_demo(*config, backend);
  if (code == 0) print(fmt::format("\nThe demo has ended. Payments made: {}.\n", backend.payments_made()));
  return code;
}

}  // namespace

Run add_demo(CLI::App& app) {
  CLI::App* command = app.add_subcommand("demo", "Show Once in front of a small payments API");
  const auto options = std::make_shared<ServeOptions>();
  add_listen_options(*command, *options);
  command->footer(
      "It prints a curl session to paste and runs until Ctrl-C. It leaves no files behind.\n"
      "Exit codes: 0 ended by a signal, 1 could not start (a port in use), 2 wrong options.");
  return [options] { return demo(*options); };
}

}  // namespace once::cli
