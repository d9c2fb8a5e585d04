// The parts of `once keys`: reading, showing and changing keys.
#pragma once

#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/admin_client.hpp"
#include "core/json_tree.hpp"

namespace once::cli {

struct KeysOptions {
  AdminOptions admin;
  bool json = false;
  // list, export, and actions on many
  std::string state;
  std::string caller;
  std::string route;
  std::string older_than;
  std::string newer_than;
  std::string before;
  std::string after;
  std::string cursor;
  unsigned limit = 50;
  bool all = false;
  bool bodies = false;
  // show and the actions
  std::string id;
  bool body = false;
  bool follow = false;
  // find
  std::string tenant;  // for the claims API
  std::string method = "POST";
  std::string path;
  std::vector<std::string> headers;  // for resolve: those of the response
  std::string header_file;
  std::string key;
  std::string key_file;
  std::string scope;
  std::string host;
  std::string peer;
  std::string request_body;  // a file name
  // actions
  bool yes = false;
  bool dry_run = false;
  std::string reason;
  std::string by;
  bool succeeded = false;
  bool failed = false;
  unsigned status = 0;
  std::string body_file;
};

int list_keys(const KeysOptions& options);
int export_keys(const KeysOptions& options);
int show_key(const KeysOptions& options);
int find_key(const KeysOptions& options);
// show --follow: writes the body to stdout, to its end.
int follow_body(const KeysOptions& options);
// release, resolve, forget: one key, or all that match the filters; stop: one key.
int change_keys(const KeysOptions& options, std::string_view action);
int change_many(const KeysOptions& options, std::string_view action);

// Whether any option that selects keys is given.
bool has_filter(const KeysOptions& options);
// Reads page after page from `cursor` on, at most `most` keys. Calls `take` once per key, with its JSON as received,
// until it returns false. Afterwards `cursor` is where to continue; empty: that was all. Returns an exit code.
using TakeKey = std::function<bool(const JsonTree& key, std::string_view json)>;
int for_each_key(const KeysOptions& options, unsigned most, std::string& cursor, const TakeKey& take);

// The requested change as members of a JSON object, without the version. nullopt: the options are wrong, which was
// reported.
std::optional<std::string> change_members(const KeysOptions& options, std::string_view action);
// What a retry will do afterwards.
std::string_view consequence(std::string_view action, const KeysOptions& options);
// Asks the operator at the terminal for confirmation.
bool operator_agrees(std::string_view question);
bool is_interactive();

// Prints the keys as a table for people.
void print_table(const std::vector<JsonTree>& keys);
void print_key(const JsonTree& key);

// Replaces control characters in a tenant's name or a backend's body, which must not reach the terminal. In UTF-8 some
// are two bytes.
std::string plain(std::string text, std::string_view kept = "");

// The state as the table shows it: a started key whose owner is gone is shown as lapsed.
std::string shown_state(const JsonTree& key);

// The text of a member; "-" if there is none.
std::string text_of(const JsonTree& key, std::string_view name);
// Writes names and text values as {"a":…}.
std::string json_object(const std::vector<std::pair<std::string, std::string>>& members);
// The elements of a JSON array as received.
std::vector<std::string_view> elements_of(std::string_view array);
// Converts "Name: value" lines to pairs; nullopt: one is malformed.
std::optional<std::string> header_pairs(const std::vector<std::string>& headers);
// The contents of a file; - is stdin. The error names the file and the reason.
std::expected<std::string, std::string> read_whole(const std::string& path);

}  // namespace once::cli
