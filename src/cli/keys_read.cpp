// once keys list, export, show and find.
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <termios.h>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "claims/json_members.hpp"
#include "cli/keys.hpp"
#include "cli/output.hpp"
#include "core/json_text.hpp"

namespace once::cli {

namespace {

constexpr unsigned largest_page = 1000;

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("-._~").contains(c);
    if (plain) {
      out.push_back(c);
    } else {
      out.push_back('%');
      append_hex(out, {&c, 1});
    }
  }
  return out;
}

std::string list_path(const KeysOptions& options, unsigned limit, std::string_view cursor) {
  std::string path = fmt::format("/v1/keys?limit={}", limit);
  const std::pair<std::string_view, std::string_view> parameters[] = {
      {"state", options.state},           {"caller", options.caller},
      {"route", options.route},           {"older_than", options.older_than},
      {"newer_than", options.newer_than}, {"before", options.before},
      {"after", options.after},           {"cursor", cursor}};
  for (const auto& [name, value] : parameters) {
    if (!value.empty()) path += fmt::format("&{}={}", name, percent_encoded(value));
  }
  return path;
}

// Prompts on the terminal without echo, or reads the first line of stdin.
std::string ask_for_key() {
  std::string key;
  if (::isatty(STDIN_FILENO) == 0) {
    std::getline(std::cin, key);
    return key;
  }
  print_error("the key (not shown):");
  termios before{};
  ::tcgetattr(STDIN_FILENO, &before);
  termios quiet = before;
  quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
  std::getline(std::cin, key);
  ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
  return key;
}

// Whether the key is read from stdin or the terminal.
bool asks_for_key(const KeysOptions& options) {
  return options.key.empty() && options.key_file.empty() && options.request_body.empty();
}

// stdin can be read only once. Empty: no conflict.
std::string stdin_conflict(const KeysOptions& options) {
  std::vector<std::string_view> readers;
  if (options.header_file == "-") readers.emplace_back("--header-file");
  if (options.request_body == "-") readers.emplace_back("--body");
  if (options.key_file == "-" || asks_for_key(options)) readers.emplace_back("the key");
  if (readers.size() < 2) return "";
  return fmt::format("{} would all be read from stdin; give files", fmt::join(readers, " and "));
}

// The key that the client sent; empty: the route derives it from the request.
std::expected<std::string, std::string> key_to_find(const KeysOptions& options) {
  std::string key = options.key;
  if (key.empty() && !options.key_file.empty()) {
    const auto text = read_whole(options.key_file);
    if (!text) return std::unexpected("--key-file: " + text.error());
    key = trim(*text);
  }
  if (asks_for_key(options)) key = ask_for_key();
  if (key.empty() && options.request_body.empty()) return std::unexpected("no key was given");
  return key;
}

std::expected<std::string, std::string> body_to_find(const KeysOptions& options) {
  if (options.request_body.empty()) return "";
  auto body = read_whole(options.request_body);
  if (!body) return std::unexpected("--body: " + body.error());
  if (!is_utf8(*body)) return std::unexpected("--body: the file is not UTF-8, and keys are derived from JSON only");
  return body;
}

// The headers of the command line and of the file. The error says why the file cannot be read.
std::expected<std::vector<std::string>, std::string> caller_headers(const KeysOptions& options) {
  std::vector<std::string> headers = options.headers;
  if (options.header_file.empty()) return headers;
  const auto text = read_whole(options.header_file);
  if (!text) return std::unexpected(text.error());
  for (const std::string_view line : split(*text, '\n')) {
    if (!trim(line).empty()) headers.emplace_back(trim(line));
  }
  return headers;
}

std::string in_capitals(std::string method) {
  for (char& c : method) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return method;
}

// Rewrites the gateway's message about members in terms of this command's options.
std::string with_options(std::string error, const KeysOptions& options) {
  const bool named = !options.host.empty() || options.path.contains("://");
  if (options.scope.empty() && !named) error += " (--host HOST, or --path https://HOST/PATH)";
  return error;
}

}  // namespace

int for_each_key(const KeysOptions& options, unsigned most, std::string& cursor, const TakeKey& take) {
  std::set<std::string> seen;  // some stores may return a key twice while they grow
  unsigned left = most;
  do {
    const AdminAnswer answer =
        ask_admin(options.admin, "GET", list_path(options, std::min(left, largest_page), cursor));
    if (answer.status != 200) return report(answer);
    const auto members = json_members(answer.body);
    const auto page = JsonTree::parse(answer.body);
    if (!members || !page || page->find("keys") == nullptr) {
      print_error("the response is not a list of keys");
      return 1;
    }
    for (const JsonMember& member : *members) {
      if (member.name != "keys") continue;
      for (const std::string_view text : elements_of(member.value)) {
        const auto key = JsonTree::parse(text);
        if (!key || !seen.insert(text_of(*key, "id")).second) continue;
        if (!take(*key, text)) return 1;
        --left;
      }
    }
    const JsonTree* next = page->find("next");
    cursor = next != nullptr && next->string() != nullptr ? *next->string() : "";
  } while (!cursor.empty() && left > 0);
  return 0;
}

int list_keys(const KeysOptions& options) {
  std::vector<JsonTree> keys;
  std::string json;
  const unsigned most = options.all ? ~0U : options.limit;
  std::string cursor = options.cursor;
  const int code = for_each_key(options, most, cursor, [&](const JsonTree& key, std::string_view text) {
    if (options.json) {
      json.append(json.empty() ? "" : ",\n").append(text);
    } else {
      keys.push_back(key);
    }
    return true;
  });
  if (code != 0) return code;
  if (options.json) {
    std::string next = "null";
    if (!cursor.empty()) append_json_string(next = "", cursor);
    print(fmt::format("{{\"keys\":[{}],\"next\":{}}}\n", json, next));
  } else if (keys.empty()) {
    print("no keys\n");
  } else {
    std::ranges::sort(keys, std::greater(), [](const JsonTree& key) { return text_of(key, "started_at"); });
    print_table(keys);
  }
  if (!cursor.empty()) {
    print_error(
        fmt::format("there are more keys: --all shows all, --limit N more of them, --cursor {} the next ones", cursor));
  }
  return 0;
}

int export_keys(const KeysOptions& options) {
  std::string cursor;
  return for_each_key(options, ~0U, cursor, [&](const JsonTree& key, std::string_view text) {
    if (!options.bodies) {
      print(std::string(text) + "\n");
      return true;
    }
    const AdminAnswer answer = ask_admin(options.admin, "GET", fmt::format("/v1/keys/{}?body=1", text_of(key, "id")));
    if (answer.status == 404) return true;  // deleted meanwhile
    if (report(answer) != 0) return false;
    print(answer.body);
    return true;
  });
}

int show_key(const KeysOptions& options) {
  if (options.follow) return follow_body(options);
  const AdminAnswer answer = ask_admin(
      options.admin, "GET", fmt::format("/v1/keys/{}{}", percent_encoded(options.id), options.body ? "?body=1" : ""));
  if (answer.status != 200) return report(answer);
  const auto key = JsonTree::parse(answer.body);
  if (options.json || !key) {
    print(answer.body);
  } else {
    print_key(*key);
  }
  return 0;
}

int find_key(const KeysOptions& options) {
  if (options.path.empty() == options.scope.empty())
    return usage_error("use --path for a request, or --scope for a claim");
  if (!options.scope.empty() && !options.request_body.empty()) return usage_error("--body needs --path");
  if (const std::string wrong = stdin_conflict(options); !wrong.empty()) return usage_error(wrong);
  const auto lines = caller_headers(options);
  if (!lines) return usage_error("--header-file: " + lines.error());
  const auto headers = header_pairs(*lines);
  if (!headers) return usage_error("--header and --header-file: expected 'Name: value'");
  const auto key = key_to_find(options);
  if (!key) return usage_error(key.error());
  const auto request_body = body_to_find(options);
  if (!request_body) return usage_error(request_body.error());
  std::vector<std::pair<std::string, std::string>> members;
  if (!key->empty()) members.emplace_back("key", *key);
  if (options.scope.empty()) {
    members.insert(members.end(), {{"method", in_capitals(options.method)}, {"path", options.path}});
    if (!request_body->empty()) members.emplace_back("body", *request_body);
    if (!options.host.empty()) members.emplace_back("host", options.host);
    if (!options.peer.empty()) members.emplace_back("peer", options.peer);
  } else {
    members.insert(members.end(), {{"scope", options.scope}, {"tenant", options.tenant}});
  }
  std::string body = json_object(members);
  if (options.scope.empty()) body.insert(body.size() - 1, ",\"headers\":" + *headers);
  const AdminAnswer answer = ask_admin(options.admin, "POST", "/v1/keys/find", body);
  if (answer.status == 400) return usage_error(with_options(answer.error, options));
  if (answer.status != 200) return report(answer);
  const auto found = JsonTree::parse(answer.body);
  if (options.json || !found) {
    print(answer.body);
  } else {
    print_key(*found);
  }
  return 0;
}

}  // namespace once::cli
