// once keys: what operators see of a running gateway's keys, and what they do to them.
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
    "Exit codes: 0 well, 1 it could not be done or there is no such key, 2 wrong options, or no key was given, 3 "
    "refused: "
    "the key is at work, has changed, or is one that ended and can only be forgotten. Of many keys: 0 all of them, 1 "
    "some "
    "failed, 3 none failed and some were refused or had changed.";
constexpr std::array<std::string_view, 7> states = {"started",   "succeeded", "failed",   "unknown",
                                                    "tombstone", "lapsed",    "unsettled"};

// Without a name in the help, as CLI's own checks have.
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
                  "In this state; a tombstone has expired and is remembered, lapsed is started with its owner gone, "
                  "unsettled is lapsed or unknown")
      ->type_name("{" + all + "}")
      ->check([all](const std::string& state) {
        return std::ranges::find(states, state) != states.end() ? "" : "expected one of " + all;
      });
  command.add_option("--tenant", options.tenant, "Of this tenant, as the list shows it")->type_name("TENANT");
  command.add_option("--route", options.route, "Of this route, as the configuration has it")->type_name("ROUTE");
  expect_age(*command.add_option("--older-than", options.older_than, "Claimed longer ago than this, such as 5m"));
  expect_age(*command.add_option("--newer-than", options.newer_than, "Claimed within this"));
  expect_time(*command.add_option("--before", options.before, "Claimed before this, such as 2026-11-15T04:03:14Z")
                   ->excludes("--older-than"));
  expect_time(*command.add_option("--after", options.after, "Claimed after this, by the store's clock")
                   ->excludes("--newer-than"));
}

CLI::App& add(CLI::App& keys, KeysOptions& options, const char* name, const char* what) {
  CLI::App* const command = keys.add_subcommand(name, what);
  add_admin_options(*command, options.admin);
  command->footer(keys_exit_codes);
  return *command;
}

CLI::Option& add_id(CLI::App& command, KeysOptions& options) {
  return *command.add_option("id", options.id, "The operation's id: 64 hex digits, or the first 16 as logs have them")
              ->type_name("ID")
              ->check([](const std::string& id) {
                const bool good = (id.size() == 16 || id.size() == 64) &&
                                  id.find_first_not_of("0123456789abcdef") == std::string::npos;
                return good ? "" : "an id is 16 or 64 hex digits";
              });
}

void add_change_options(CLI::App& command, KeysOptions& options) {
  add_id(command, options);
  add_filters(command, options);
  command.add_flag("--dry-run", options.dry_run, "Of many: show which they are, and change nothing");
  command.add_option("--reason", options.reason, "Why; it is in the audit log")->type_name("TEXT");
  command.add_option("--by", options.by, "Who does it; the default is the user's name")->type_name("NAME");
  command.add_flag("--yes", options.yes, "Do not ask");
  command.add_flag("--json", options.json, "Print the answer as JSON");
  command.footer(
      std::string("Of one key, by its ID, or of all that fit --state, --tenant, --route and the times. Many are shown "
                  "first; each is changed only if it is still what was shown.\n") +
      keys_exit_codes);
}

void add_find(CLI::App& keys, KeysOptions& options) {
  CLI::App& command = add(keys, options, "find", "The key of a request, by the key that its client sent");
  command.add_option("--path", options.path, "Of the request; or its whole URL")->type_name("PATH");
  command.add_option("--host", options.host, "Of the request, if --path is no URL")->type_name("HOST");
  command.add_option("--method", options.method, "Of the request; the default is POST")->type_name("METHOD");
  command
      .add_option(
          "--header", options.headers,
          "Of the request, as far as the caller is known by it; repeatable. Everybody on this machine can see it in "
          "the list of processes")
      ->type_name("'NAME: VALUE'");
  command.add_option("--header-file", options.header_file, "A file with such headers, one a line; - is stdin")
      ->type_name("FILE");
  command.add_option("--peer", options.peer, "The client's address, where the caller is known by it")->type_name("IP");
  command.add_option("--scope", options.scope, "Of the claims API, instead of a request")->type_name("SCOPE");
  command.add_option("--tenant", options.tenant, "Of the claims API; the default is local")->type_name("TENANT");
  command.add_option("--key-file", options.key_file, "A file with the key; - is stdin")->type_name("FILE");
  command.add_option("--key", options.key, "The key. Everybody on this machine can see it in the list of processes")
      ->type_name("KEY");
  command.add_flag("--json", options.json, "Print it as JSON");
  command.footer(
      std::string(
          "Without --key-file and --key the key is asked for, or read from stdin. Host, method, path and caller "
          "are part of a key: give them as the client sent them.\n") +
      keys_exit_codes);
}

void add_changes(CLI::App& keys, KeysOptions& options) {
  add_change_options(add(keys, options, "release", "Give an unknown or stuck key free: a retry executes anew"),
                     options);
  CLI::App& resolve = add(keys, options, "resolve", "Say how an unknown or stuck key ended");
  add_change_options(resolve, options);
  resolve.add_flag("--succeeded", options.succeeded, "It was done");
  resolve.add_flag("--failed", options.failed, "It was not done: a retry with the same request executes it");
  expect_number(*resolve.add_option("--status", options.status, "Of the response that retries get, 200 to 599"), 200,
                599);
  resolve
      .add_option("--header", options.headers,
                  "Of that response; repeatable. A body that is JSON is application/json, unless this says otherwise")
      ->type_name("'NAME: VALUE'");
  resolve.add_option("--body-file", options.body_file, "The body of that response; - is stdin")->type_name("FILE");
  add_change_options(add(keys, options, "forget", "Drop a key, whatever it recorded: a retry executes anew"), options);
}

}  // namespace

Run add_keys(CLI::App& app) {
  CLI::App* const keys =
      app.add_subcommand("keys", "Look at a running gateway's keys, and settle those that are stuck");
  keys->require_subcommand(1);
  const auto options = std::make_shared<KeysOptions>();
  CLI::App& list = add(*keys, *options, "list", "Keys, page by page");
  add_filters(list, *options);
  expect_number(*list.add_option("--limit", options->limit, "At most so many, up to 1000000; the default is 50"), 1,
                1'000'000);
  list.add_option("--cursor", options->cursor, "Go on behind an earlier list, which said this")->type_name("CURSOR");
  list.add_flag("--all", options->all, "All of them");
  list.add_flag("--json", options->json, "Print them as JSON");
  CLI::App& show = add(*keys, *options, "show", "One key");
  add_id(show, *options).required();
  show.add_flag("--body", options->body, "With the recorded response");
  show.add_flag("--json", options->json, "Print it as JSON");
  add_find(*keys, *options);
  add_changes(*keys, *options);
  CLI::App& all = add(*keys, *options, "export", "All keys as lines of JSON");
  add_filters(all, *options);
  all.add_flag("--bodies", options->bodies, "With the recorded responses");
  keys->footer(std::string("`once keys COMMAND --help` says more about each.\n") + keys_exit_codes);
  return [keys, options] {
    if (keys->got_subcommand("list")) return list_keys(*options);
    if (keys->got_subcommand("show")) return show_key(*options);
    if (keys->got_subcommand("find")) return find_key(*options);
    if (keys->got_subcommand("export")) return export_keys(*options);
    for (const char* action : {"release", "resolve", "forget"}) {
      if (keys->got_subcommand(action)) return change_keys(*options, action);
    }
    return 2;
  };
}

}  // namespace once::cli
