#include "cli/admin_client.hpp"

#include <cstdlib>
#include <stop_token>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "cli/output.hpp"
#include "client/curl_transport.hpp"
#include "config/codec.hpp"
#include "config/secret.hpp"
#include "core/json_tree.hpp"

namespace once::cli {

namespace {

constexpr int unauthorized = 401;
constexpr int conflict = 409;
constexpr std::size_t longest_token = 4096;

// The `detail` of a problem; without one the whole body, as another server may have sent it.
std::string detail_of(const std::string& body) {
  const auto tree = JsonTree::parse(body);
  const JsonTree* detail = tree ? tree->find("detail") : nullptr;
  std::string text = detail != nullptr && detail->string() != nullptr ? *detail->string() : body;
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

AdminAnswer wrong(std::string why) {
  return {.status = 0, .body = {}, .error = std::move(why), .usage = true};
}

// The token from the file or the environment; empty: none.
std::expected<std::string, std::string> token_of(const AdminOptions& options) {
  if (options.token == Token::none) return "";
  if (options.token_file.empty()) {
    const char* const token = std::getenv("ONCE_ADMIN_TOKEN");
    return token == nullptr ? "" : token;
  }
  const auto file = read_file(options.token_file, longest_token);
  if (!file) {
    return std::unexpected(fmt::format("--token-file: {} cannot be read: {}", options.token_file, file.error()));
  }
  if (trim(file->bytes).empty()) return std::unexpected(fmt::format("--token-file: {} is empty", options.token_file));
  return std::string(trim(file->bytes));
}

// Only the listener for clients gives every response an id, and only the admin interface sends Once-Admin. Early
// refusals, such as too many connections, have neither.
bool is_for_clients(const client::Answer& answer) {
  return answer.header("Once-Admin").empty() && !answer.header("X-Request-Id").empty();
}

// The gateway's message names its own setting; add what to do on this side.
std::string token_hint(const AdminOptions& options, bool given) {
  if (options.token == Token::none) return "";
  if (!given) return " (set it with --token-file FILE or in ONCE_ADMIN_TOKEN)";
  const bool file = !options.token_file.empty();
  return fmt::format(" (it was read from {})",
                     file ? options.token_file : "ONCE_ADMIN_TOKEN; --token-file FILE takes precedence");
}

}  // namespace

void add_admin_address(CLI::App& command, AdminOptions& options) {
  command.add_option("--admin", options.admin, "The gateway's admin address; the default is 127.0.0.1:8081")
      ->type_name("HOST:PORT");
}

void add_admin_options(CLI::App& command, AdminOptions& options) {
  add_admin_address(command, options);
  command
      .add_option("--token-file", options.token_file,
                  "A file with the admin token; the default is the variable ONCE_ADMIN_TOKEN")
      ->type_name("FILE");
}

AdminAnswer ask_admin(const AdminOptions& options, std::string method, std::string_view path, std::string body) {
  if (!parse_address(options.admin)) {
    return wrong(fmt::format("--admin: {}", not_expected("an address such as 127.0.0.1:8081", options.admin).error()));
  }
  const auto token = token_of(options);
  if (!token) return wrong(token.error());
  std::vector<client::Header> headers = {{.name = "Once-Admin", .value = "1"}};
  if (!token->empty()) headers.push_back({.name = "Authorization", .value = "Bearer " + *token});
  if (!body.empty()) headers.push_back({.name = "Content-Type", .value = "application/json"});
  const client::Request request{.method = std::move(method),
                                .url = fmt::format("http://{}{}", options.admin, path),
                                .headers = {},
                                .body = std::move(body),
                                .key = {}};
  client::Options limits;
  limits.max_answer_body = std::size_t{256} << 20U;
  client::CurlTransport transport;
  // Use no proxy: a proxy must not get the token, and a local request must not depend on one.
  client::Tried tried = transport.perform({.request = request,
                                           .headers = headers,
                                           .options = limits,
                                           .timeout = options.timeout,
                                           .proxies = client::Proxies::none},
                                          std::stop_token());
  if (is_for_clients(tried.answer)) {
    return wrong(
        fmt::format("--admin: {} answers as the address for clients does, not as the admin interface: use the address "
                    "of the gateway's setting admin, by default 127.0.0.1:8081",
                    options.admin));
  }
  AdminAnswer answer{.status = tried.answer.status, .body = std::move(tried.answer.body), .error = {}};
  if (answer.status == 0) answer.error = fmt::format("no answer from {}: {}", options.admin, tried.detail);
  if (answer.status != 0 && answer.status != 200) answer.error = detail_of(answer.body);
  if (answer.status == unauthorized) answer.error += token_hint(options, !token->empty());
  return answer;
}

int report(const AdminAnswer& answer) {
  if (answer.status == 200) return 0;
  print_error(answer.error);
  if (answer.usage) return 2;
  return answer.status == conflict ? 3 : 1;
}

}  // namespace once::cli
