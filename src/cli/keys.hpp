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
  std::string tenant;  // of the claims API
  std::string method = "POST";
  std::string path;
  std::vector<std::string> headers;  // resolve: of the response
  std::string header_file;
  std::string key;
  std::string key_file;
  std::string scope;
  std::string host;
  std::string peer;
  std::string request_body;  // a file
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
// show --follow: the body to stdout, to its end.
int follow_body(const KeysOptions& options);
// release, resolve, forget: of one key, or of all that fit the filters; stop: of one key
int change_keys(const KeysOptions& options, std::string_view action);
int change_many(const KeysOptions& options, std::string_view action);

// Whether any of the options that choose keys is given.
bool has_filter(const KeysOptions& options);
// Page after page from `cursor` on, at most `most` keys. Each goes to `take` once, with its JSON as it came, until that
// returns false. Afterwards `cursor` is where to go on; empty: that was all. Returns an exit code.
using TakeKey = std::function<bool(const JsonTree& key, std::string_view json)>;
int for_each_key(const KeysOptions& options, unsigned most, std::string& cursor, const TakeKey& take);

// What is asked of a key, as members of a JSON object; the version is not among them. nullopt: the options are wrong,
// and it was said.
std::optional<std::string> change_members(const KeysOptions& options, std::string_view action);
// What a retry will do afterwards.
std::string_view consequence(std::string_view action, const KeysOptions& options);
// Asks at the terminal.
bool operator_agrees(std::string_view question);
bool somebody_can_be_asked();

// For people.
void print_table(const std::vector<JsonTree>& keys);
void print_key(const JsonTree& key);

// A control character in a tenant's name or in a backend's body must not reach the terminal. In UTF-8 some are two
// bytes.
std::string plain(std::string text, std::string_view kept = "");

// As the table has it: started is told as lapsed when its owner is gone.
std::string shown_state(const JsonTree& key);

// The text of a member; "-" if there is none.
std::string text_of(const JsonTree& key, std::string_view name);
// {"a":…} out of names and values that are texts.
std::string json_object(const std::vector<std::pair<std::string, std::string>>& members);
// The elements of a JSON array as they were sent.
std::vector<std::string_view> elements_of(std::string_view array);
// "Name: value" as a pair; nullopt: it is none.
std::optional<std::string> header_pairs(const std::vector<std::string>& headers);
// All of a file; - is stdin. The error names the file and says why it cannot be read.
std::expected<std::string, std::string> read_whole(const std::string& path);

}  // namespace once::cli
