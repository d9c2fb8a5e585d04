// The parts of `once keys`: what it reads, what it shows, what it does.
#pragma once

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
  // list, export
  std::string state;
  std::string tenant;  // find: of the claims API
  std::string route;
  std::string older_than;
  std::string newer_than;
  std::string cursor;
  unsigned limit = 50;
  bool all = false;
  bool bodies = false;
  // show and the actions
  std::string id;
  bool body = false;
  // find
  std::string method = "POST";
  std::string path;
  std::vector<std::string> headers;  // resolve: of the response
  std::string key;
  std::string key_file;
  std::string scope;
  std::string host;
  std::string peer;
  // actions
  bool yes = false;
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
// release, resolve, forget
int change_key(const KeysOptions& options, std::string_view action);

// For people.
void print_table(const std::vector<JsonTree>& keys);
void print_key(const JsonTree& key);

// The text of a member; "-" if there is none.
std::string text_of(const JsonTree& key, std::string_view name);
// {"a":…} out of names and values that are texts.
std::string json_object(const std::vector<std::pair<std::string, std::string>>& members);
// The elements of a JSON array as they were sent.
std::vector<std::string_view> elements_of(std::string_view array);
// "Name: value" as a pair; nullopt: it is none.
std::optional<std::string> header_pairs(const std::vector<std::string>& headers);
// All of a file; - is stdin.
std::optional<std::string> read_whole(const std::string& path);

}  // namespace once::cli
