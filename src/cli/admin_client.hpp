// HTTP requests to a running gateway's admin interface, for `once reload`, `once keys` and `once health`. It never uses
// a proxy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "base/clock.hpp"

namespace once::cli {

// Health needs no token.
enum class Token : std::uint8_t { if_given, none };

struct AdminOptions {
  std::string admin = "127.0.0.1:8081";
  std::string token_file;  // empty: use ONCE_ADMIN_TOKEN, or none
  Duration timeout = std::chrono::minutes(1);
  Token token = Token::if_given;
};
void add_admin_address(CLI::App& command, AdminOptions& options);
// Adds options for the address and the token.
void add_admin_options(CLI::App& command, AdminOptions& options);

struct AdminAnswer {
  int status = 0;  // 0: no answer, or the options are wrong
  std::string body;
  std::string error;   // for people, unless the status is 200
  bool usage = false;  // the options are wrong
};

// `body` is sent as JSON if it is not empty.
AdminAnswer ask_admin(const AdminOptions& options, std::string method, std::string_view path, std::string body = "");

// 0 for a 200. Otherwise prints the reason to stderr and returns 2 for wrong options, 3 for a conflict, else 1.
int report(const AdminAnswer& answer);

}  // namespace once::cli
