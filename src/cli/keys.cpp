// once keys: shows operators the keys of a running gateway, and changes them.
#include "cli/keys.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "admin/keys_json.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"

namespace once::cli {

namespace {

constexpr const char* keys_exit_codes =
    "Exit codes: 0 success, 1 failed or no such key, 2 wrong options or no key given, 3 refused: the key's request "
    "is running, the key has changed, or it has ended and can only be forgotten. With many keys: 0 all changed, 1 "
    "some failed, 3 none failed and some were refused or had changed.";
constexpr std::array<std::string_view, 7> states = {"started",   "succeeded", "failed",   "unknown",
                                                    "tombstone", "lapsed",    "unsettled"};

// Unlike CLI's own checks, does not show the range in the help.
void expect_number(CLI::Option& option, std::uint64_t least, std::uint64_t most) {
  option.type_name("N")->check([least, most](const std::string& text) {
    const auto number = parse_number(text);
    return number && *number >= least && *number <= most ? "" : fmt::format("expected {} to {}", least, most);
  });
}

void expect_age(CLI::Option& option) {
  option.type_name("TIME")->check(
      [](const std::string& text) { return parse_duration(text) ? "" : "expected a duration such as 5m"; });
}

void expect_time(CLI::Option& option) {
  option.type_name("TIME")->check(
      [](const std::string& text) { return parse_time(text) ? "" : "expected a time such as 2026-11-15T04:03:14Z"; });
}

void add_filters(CLI::App& command, KeysOptions& options) {
  const std::string all = fmt::format("{}", fmt::join(states, ","));
  command
      .add_option("--state", options.state,
                  "In this state. tombstone: expired but remembered; lapsed: started, but its owner is gone; "
                  "unsettled: lapsed or unknown")
      ->type_name("{" + all + "}")
      ->check([all](const std::string& state) {
        return std::ranges::find(states, state) != states.end() ? "" : "expected one of " + all;
      });
  command.add_option("--caller", options.caller, "With this caller, as shown in the list")->type_name("CALLER");
  command.add_option("--route", options.route, "With this route, as in the configuration")->type_name("ROUTE");
  expect_age(
      *command.add_option("--older-than", options.older_than, "Claimed longer ago than this duration, such as 5m"));
  expect_age(*command.add_option("--newer-than", options.newer_than, "Claimed within this duration"));
  expect_time(*command.add_option("--before", options.before, "Claimed before this time, such as 2026-11-15T04:03:14Z")
                   ->excludes("--older-than"));
  expect_time(*command.add_option("--after", options.after, "Claimed after this time, by the store's clock")
                   ->excludes("--newer-than"));
}

CLI::App& add(CLI::App& keys, KeysOptions& options, const char* name, const char* what) {
  CLI::App* const command = keys.add_subcommand(name, what);
  add_admin_options(*command, options.admin);
  command->footer(keys_exit_codes);
  return *command;
}

CLI::Option& add_id(CLI::App& command, KeysOptions& options) {
  return *command.add_option("id", options.id, "The operation's id: 64 hex digits, or the first 16 as in the logs")
              ->type_name("ID")
              ->check([](const std::string& id) {
                const bool good = (id.size() == 16 || id.size() == 64) &&
                                  id.find_first_not_of("0123456789abcdef") == std::string::npos;
                return good ? "" : "an id is 16 or 64 hex digits";
              });
}

void add_audit_options(CLI::App& command, KeysOptions& options) {
  command.add_option("--reason", options.reason, "The reason, for the audit log")->type_name("TEXT");
  command.add_option("--by", options.by, "Your name, for the audit log; the default is the user's name")
      ->type_name("NAME");
  command.add_flag("--yes", options.yes, "Do not ask");
  command.add_flag("--json", options.json, "Print the result as JSON");
}

void add_change_options(CLI::App& command, KeysOptions& options) {
  add_id(command, options);
  add_filters(command, options);
  command.add_flag("--dry-run", options.dry_run, "With many keys: list them and change nothing");
  add_audit_options(command, options);
  command.footer(
      std::string("Applies to one key by its ID, or to all keys that match --state, --caller, --route and the times. "
                  "Many keys are listed first. Each is changed only if it is still as listed.\n") +
      keys_exit_codes);
}

void add_find(CLI::App& keys, KeysOptions& options) {
  CLI::App& command = add(keys, options, "find", "Find a key by the value that the client sent");
  command.add_option("--path", options.path, "The path of the request, or its whole URL")->type_name("PATH");
  command.add_option("--host", options.host, "The host of the request, unless --path is a URL")->type_name("HOST");
  command.add_option("--method", options.method, "The method of the request; the default is POST")->type_name("METHOD");
  command
      .add_option(
          "--header", options.headers,
          "A header of the request that identifies its caller; repeatable. Other users of this machine can see it in "
          "the process list")
      ->type_name("'NAME: VALUE'");
  command.add_option("--header-file", options.header_file, "A file with such headers, one per line; - is stdin")
      ->type_name("FILE");
  command
      .add_option("--body", options.request_body,
                  "A file with the body of the request, for a route that derives keys (key.derive); - is stdin. The "
                  "command then asks for no key")
      ->type_name("FILE");
  command.add_option("--peer", options.peer, "The client's address, if it identifies the caller")->type_name("IP");
  command.add_option("--scope", options.scope, "The scope of a claim, instead of a request")->type_name("SCOPE");
  command.add_option("--tenant", options.tenant, "The tenant of a claim; the default is local")->type_name("TENANT");
  command.add_option("--key-file", options.key_file, "A file with the key; - is stdin")->type_name("FILE");
  command.add_option("--key", options.key, "The key. Other users of this machine can see it in the process list")
      ->type_name("KEY");
  command.add_flag("--json", options.json, "Print the key as JSON");
  command.footer(std::string("Without --key-file, --key and --body, the command prompts for the key or reads it from "
                             "stdin. Host, method, path "
                             "and caller are part of a key: give them exactly as the client sent them.\n") +
                 keys_exit_codes);
}

void add_changes(CLI::App& keys, KeysOptions& options) {
  add_change_options(add(keys, options, "release", "Free an unknown or stuck key: a retry executes again"), options);
  CLI::App& resolve = add(keys, options, "resolve", "Record the outcome of an unknown or stuck key");
  add_change_options(resolve, options);
  resolve.add_flag("--succeeded", options.succeeded, "It was done");
  resolve.add_flag("--failed", options.failed, "The work was not done: a retry of the same request executes it");
  expect_number(
      *resolve.add_option("--status", options.status, "The status of the response that retries get, 200 to 599"), 200,
      599);
  resolve
      .add_option("--header", options.headers,
                  "A header of that response; repeatable. The default Content-Type of a JSON body is application/json")
      ->type_name("'NAME: VALUE'");
  resolve.add_option("--body-file", options.body_file, "The body of that response; - is stdin")->type_name("FILE");
  add_change_options(add(keys, options, "forget", "Delete a key with its record: a retry executes again"), options);
  CLI::App& stop = add(keys, options, "stop", "Stop a streaming response: the recorded part becomes the response");
  add_id(stop, options).required();
  add_audit_options(stop, options);
}

}  // namespace

Run add_keys(CLI::App& app) {
  CLI::App* const keys = app.add_subcommand("keys", "Show a running gateway's keys, and settle stuck ones");
  keys->require_subcommand(1);
  const auto options = std::make_shared<KeysOptions>();
  CLI::App& list = add(*keys, *options, "list", "List keys, page by page");
  add_filters(list, *options);
  expect_number(*list.add_option("--limit", options->limit, "At most this many, up to 1000000; the default is 50"), 1,
                1'000'000);
  list.add_option("--cursor", options->cursor, "Continue an earlier list, which printed this cursor")
      ->type_name("CURSOR");
  list.add_flag("--all", options->all, "All of them");
  list.add_flag("--json", options->json, "Print the keys as JSON");
  CLI::App& show = add(*keys, *options, "show", "One key");
  add_id(show, *options).required();
  show.add_flag("--body", options->body, "Include the recorded response");
  show.add_flag("--follow", options->follow, "Write only the body of the response to stdout, live if it still streams")
      ->excludes("--body");
  show.add_flag("--json", options->json, "Print the key as JSON")->excludes("--follow");
  add_find(*keys, *options);
  add_changes(*keys, *options);
  CLI::App& all = add(*keys, *options, "export", "Print all keys as lines of JSON");
  add_filters(all, *options);
  all.add_flag("--bodies", options->bodies, "Include the recorded responses");
  keys->footer(std::string("`once keys COMMAND --help` describes each command.\n") + keys_exit_codes);
  return [keys, options] {
    if (keys->got_subcommand("list")) return list_keys(*options);
    if (keys->got_subcommand("show")) return show_key(*options);
    if (keys->got_subcommand("find")) return find_key(*options);
    if (keys->got_subcommand("export")) return export_keys(*options);
    for (const char* action : {"release", "resolve", "forget", "stop"}) {
      if (keys->got_subcommand(action)) return change_keys(*options, action);
    }
    return 2;
  };
}

}  // namespace once::cli
