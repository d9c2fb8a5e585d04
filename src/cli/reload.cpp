#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "client/curl_transport.hpp"
#include "config/codec.hpp"

namespace once::cli {

namespace {

constexpr Duration answer_limit = std::chrono::minutes(1);

// Without the member, the whole body: it may be somebody else who answers there.
std::string detail_of(const std::string& body) {
  constexpr std::string_view begin = "\"detail\":\"";
  const std::size_t at = body.find(begin);
  if (at == std::string::npos) return body;
  std::string text;
  for (std::size_t i = at + begin.size(); i < body.size() && body[i] != '"'; ++i) {
    if (body[i] != '\\') {
      text.push_back(body[i]);
      continue;
    }
    ++i;
    text.push_back(i < body.size() && body[i] != 'n' ? body[i] : '\n');
  }
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

int reload(const std::string& admin) {
  if (!parse_address(admin)) {
    print_error(fmt::format("--admin: {}", not_expected("an address such as 127.0.0.1:8081", admin).error()));
    return 2;
  }
  const client::Request request{.method = "POST", .url = fmt::format("http://{}/v1/reload", admin)};
  const std::vector<client::Header> headers = {{.name = "Once-Admin", .value = "1"}};
  const client::Options options;
  client::CurlTransport transport;
  const client::Tried tried = transport.perform(
      {.request = request, .headers = headers, .options = options, .timeout = answer_limit}, std::stop_token());
  const int status = tried.answer.status;
  if (status == 200) {
    print(tried.answer.body);
    return 0;
  }
  if (status == 0) {
    print_error(fmt::format("nobody answers at {}: {}", admin, tried.detail));
  } else {
    print_error(fmt::format("nothing was changed:\n{}", detail_of(tried.answer.body)));
  }
  return 1;
}

}  // namespace

Run add_reload(CLI::App& app) {
  CLI::App* command = app.add_subcommand("reload", "Let a running gateway read its configuration again");
  const auto admin = std::make_shared<std::string>("127.0.0.1:8081");
  command->add_option("--admin", *admin, "The gateway's admin address, on loopback; the default is 127.0.0.1:8081")
      ->type_name("HOST:PORT");
  command->footer(
      "The same as SIGHUP, but it waits for the end and says what is wrong. New requests are served by the new "
      "settings, requests at work end by the old ones. If anything in the file is wrong, or a setting changed that "
      "needs a restart, nothing is changed.\n"
      "Exit codes: 0 reloaded (warnings may be printed), 1 refused or nobody answers, 2 wrong options.");
  return [admin] { return reload(*admin); };
}

}  // namespace once::cli
