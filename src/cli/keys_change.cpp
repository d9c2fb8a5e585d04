// once keys release, resolve, forget and stop: reads and shows the key, and changes it only if it is unchanged since.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include <fmt/format.h>
#include <pwd.h>

#include "base/base64.hpp"
#include "base/text.hpp"
#include "cli/keys.hpp"
#include "cli/output.hpp"
#include "core/json_text.hpp"

namespace once::cli {

namespace {

std::string who(const KeysOptions& options) {
  if (!options.by.empty()) return options.by;
  for (const char* name : {"SUDO_USER", "USER", "LOGNAME"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  }
  const passwd* const user = ::getpwuid(::getuid());
  return user != nullptr ? user->pw_name : fmt::format("uid {}", ::getuid());
}

// Adds a Content-Type to a JSON body if none is given: clients check the type before they parse the body.
std::vector<std::string> typed(std::vector<std::string> headers, const std::string& body) {
  const auto is_type = [](std::string_view header) {
    return iequals(trim(header.substr(0, header.find(':'))), "Content-Type");
  };
  if (std::ranges::none_of(headers, is_type) && JsonTree::parse(body)) {
    headers.emplace_back("Content-Type: application/json");
  }
  return headers;
}

// The response that every retry will get, as a member; empty: none. nullopt: the options are wrong, which was reported.
std::optional<std::string> response_of(const KeysOptions& options) {
  if (options.status == 0) {
    if (options.headers.empty() && options.body_file.empty()) return "";
    print_error("--header and --body-file need a --status");
    return std::nullopt;
  }
  const auto body =
      options.body_file.empty() ? std::expected<std::string, std::string>("") : read_whole(options.body_file);
  if (!body) {
    print_error("--body-file: " + body.error());
    return std::nullopt;
  }
  const auto headers = header_pairs(typed(options.headers, *body));
  if (!headers) {
    print_error("--header: expected 'Name: value'");
    return std::nullopt;
  }
  const bool text = is_utf8(*body);
  std::string out = fmt::format(",\"response\":{{\"status\":{},\"headers\":{},\"{}\":", options.status, *headers,
                                text ? "body" : "body_base64");
  append_json_string(out, text ? *body : to_base64(*body));
  return out + "}";
}

int change_one(const KeysOptions& options, std::string_view action, const std::string& members) {
  const AdminAnswer seen = ask_admin(options.admin, "GET", "/v1/keys/" + options.id);
  if (seen.status != 200) return report(seen);
  const auto key = JsonTree::parse(seen.body);
  if (!key) return report({.status = 1, .body = {}, .error = "the response is not a key"});
  if (!options.yes) {
    print_key(*key);
    if (!operator_agrees(consequence(action, options))) {
      print_error("nothing was changed");
      return 1;
    }
  }
  const std::string body = fmt::format("{{\"version\":\"{}\",{}}}", text_of(*key, "version"), members);
  const AdminAnswer answer =
      ask_admin(options.admin, "POST", fmt::format("/v1/keys/{}/{}", text_of(*key, "id"), action), body);
  if (answer.status != 200) return report(answer);
  const auto done = JsonTree::parse(answer.body);
  print(options.json || !done ? answer.body
                              : fmt::format("{} {}\n", text_of(*done, "done"), text_of(*key, "id").substr(0, 16)));
  return 0;
}

}  // namespace

std::string_view consequence(std::string_view action, const KeysOptions& options) {
  if (action == "release") return "A retry will execute the request again.";
  if (action == "stop")
    return "The stream ends, and its readers are cut off. The part that was recorded becomes the response: retries get "
           "it, and the request is not executed again.";
  if (action == "forget") return "The record will be deleted, and a retry will execute the request again.";
  if (options.failed)
    return "The key will be recorded as failed, and a retry of the same request will execute it again.";
  if (options.status == 0)
    return "The key will be recorded as succeeded without a response. Retries will get 409 response-not-kept and "
           "will not be executed.";
  return "The key will be recorded as succeeded, and every retry will get this response.";
}

bool operator_agrees(std::string_view question) {
  print(fmt::format("{} Type yes to continue: ", question));
  std::string answer;
  std::getline(std::cin, answer);
  return trim(answer) == "yes";
}

bool is_interactive() {
  return ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
}

std::optional<std::string> change_members(const KeysOptions& options, std::string_view action) {
  std::vector<std::pair<std::string, std::string>> members = {{"reason", options.reason}, {"by", who(options)}};
  std::optional<std::string> response = "";
  if (action == "resolve") {
    members.emplace_back("state", options.failed ? "failed" : "succeeded");
    response = response_of(options);
  }
  if (!response) return std::nullopt;
  const std::string object = json_object(members);
  return object.substr(1, object.size() - 2) + *response;
}

int change_keys(const KeysOptions& options, std::string_view action) {
  if (action == "resolve" && options.succeeded == options.failed) return usage_error("use --succeeded or --failed");
  if (options.id.empty()) return change_many(options, action);
  if (has_filter(options)) return usage_error("use an ID or filters such as --state unknown, not both");
  if (options.dry_run) return usage_error("--dry-run is for many keys; `once keys show` shows one");
  if (!options.yes && !is_interactive()) return usage_error("there is no terminal to confirm this; use --yes");
  const auto members = change_members(options, action);
  return members ? change_one(options, action, *members) : 2;
}

}  // namespace once::cli
