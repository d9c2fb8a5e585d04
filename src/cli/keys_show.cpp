// Output of `once keys` for people, and JSON helpers.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <iterator>

#include <fmt/format.h>

#include "base/text.hpp"
#include "cli/keys.hpp"
#include "cli/output.hpp"
#include "config/secret.hpp"
#include "core/json_text.hpp"

namespace once::cli {

namespace {

constexpr std::size_t short_id = 16;
constexpr std::size_t largest_file = std::size_t{64} << 20U;

std::string shown_body(const JsonTree& outcome) {
  const JsonTree* body = outcome.find("body");
  if (body != nullptr && body->string() != nullptr) return "\n" + plain(*body->string(), "\n\t") + "\n";
  const bool binary = outcome.find("body_base64") != nullptr;
  return binary ? fmt::format("{:<14} {}\n", "body_base64", text_of(outcome, "body_base64"))
                : "\nThe body is in chunks: once keys show ID --follow writes it.\n";
}

// "POST /orders/17"; empty for a claim without a request.
std::string shown_request(const JsonTree& key) {
  const std::string path = text_of(key, "path");
  return path == "-" ? path : text_of(key, "method") + " " + path;
}

}  // namespace

std::string plain(std::string text, std::string_view kept) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool two_bytes = c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (two_bytes) text[i++] = '?';
    if (two_bytes || ((c < ' ' || c == 0x7F) && !kept.contains(text[i]))) text[i] = '?';
  }
  return text;
}

std::string shown_state(const JsonTree& key) {
  std::string state = text_of(key, "state");
  if (state != "started") return state;
  return text_of(key, "live") == "true" ? "started" : "lapsed";
}

std::string text_of(const JsonTree& key, std::string_view name) {
  const JsonTree* member = key.find(name);
  if (member == nullptr || member->is_null()) return "-";
  if (member->string() != nullptr) return plain(*member->string());
  if (member->number() != nullptr) return member->number()->text;
  return member->boolean() != nullptr && *member->boolean() ? "true" : "false";
}

void print_table(const std::vector<JsonTree>& keys) {
  static constexpr std::array<std::string_view, 9> titles = {
      "ID", "STATE", "CALLER", "ROUTE", "REQUEST", "TRIES", "STARTED", "OUTCOME BYTES", "REQUEST ID"};
  std::vector<std::array<std::string, titles.size()>> rows;
  rows.emplace_back();
  std::ranges::copy(titles, rows.front().begin());
  for (const JsonTree& key : keys) {
    rows.push_back({text_of(key, "id").substr(0, short_id), shown_state(key), text_of(key, "caller"),
                    text_of(key, "route"), shown_request(key), text_of(key, "attempt"), text_of(key, "started_at"),
                    text_of(key, "outcome_bytes") + (text_of(key, "body") == "in_chunks" ? " + chunks" : ""),
                    text_of(key, "request_id")});
  }
  std::array<std::size_t, titles.size()> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths.at(i) = std::max(widths.at(i), row.at(i).size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row.at(i), widths.at(i));
    out.append(line.substr(0, line.find_last_not_of(' ') + 1)).append("\n");
  }
  print(out);
}

void print_key(const JsonTree& key) {
  static constexpr std::array<std::string_view, 15> names = {
      "id",         "caller",      "route",      "method",    "path",      "request_id", "attempt",      "fence",
      "started_at", "lease_until", "expires_at", "forget_at", "body_kept", "body",       "outcome_bytes"};
  std::string out = fmt::format("{:<14} {}\n", "state", shown_state(key));
  for (const std::string_view name : names) out += fmt::format("{:<14} {}\n", name, text_of(key, name));
  if (const JsonTree* stream = key.find("stream"); stream != nullptr && stream->object() != nullptr) {
    out += fmt::format("{:<14} {}\n", "stream", text_of(*stream, "state"));
    for (const std::string_view name : {"chunks", "bytes", "readers"}) {
      out += fmt::format("{:<14} {}\n", fmt::format("  {}", name), text_of(*stream, name));
    }
  }
  if (const JsonTree* outcome = key.find("outcome"); outcome != nullptr && outcome->object() != nullptr) {
    out += fmt::format("{:<14} {}\n", "status", text_of(*outcome, "status"));
    if (const JsonTree* headers = outcome->find("headers"); headers != nullptr && headers->array() != nullptr) {
      for (const JsonTree& pair : *headers->array()) {
        out += fmt::format("{:<14} {}: {}\n", "header", plain(*(*pair.array())[0].string()),
                           plain(*(*pair.array())[1].string()));
      }
    }
    out += shown_body(*outcome);
  }
  print(out);
}

std::string json_object(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string out = "{";
  for (const auto& [name, value] : members) {
    if (out.size() > 1) out.push_back(',');
    append_json_string(out, name);
    out.push_back(':');
    append_json_string(out, value);
  }
  return out + "}";
}

std::vector<std::string_view> elements_of(std::string_view array) {
  std::vector<std::string_view> elements;
  std::size_t depth = 0;
  std::size_t begin = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < array.size(); ++i) {
    const char c = array[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
      continue;
    }
    if (c == '"') quoted = true;
    if (c == '{' || c == '[') {
      if (++depth == 2) begin = i;
    } else if (c == '}' || c == ']') {
      if (depth-- == 2) elements.push_back(array.substr(begin, i + 1 - begin));
    }
  }
  return elements;
}

std::optional<std::string> header_pairs(const std::vector<std::string>& headers) {
  std::string out = "[";
  for (const std::string& header : headers) {
    const std::size_t colon = header.find(':');
    if (colon == 0 || colon == std::string::npos) return std::nullopt;
    out.append(out.size() > 1 ? ",[" : "[");
    append_json_string(out, trim(header.substr(0, colon)));
    out.push_back(',');
    append_json_string(out, trim(std::string_view(header).substr(colon + 1)));
    out.push_back(']');
  }
  return out + "]";
}

std::expected<std::string, std::string> read_whole(const std::string& path) {
  if (path == "-") return std::string((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
  auto file = read_file(path, largest_file);
  if (!file) return std::unexpected(fmt::format("{} cannot be read: {}", path, file.error()));
  return std::move(file->bytes);
}

}  // namespace once::cli
