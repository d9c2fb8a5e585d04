#include "claims/json_members.hpp"

#include <algorithm>

#include "core/json_scanner.hpp"
#include "core/json_walk.hpp"

namespace once::claims {

namespace {

// More members are refused, which bounds the search for duplicate names.
constexpr std::size_t most_members = 64;

class AnyValue final : public JsonVisitor {};

class MemberReader final : public JsonVisitor {
 public:
  std::vector<JsonMember> take() { return std::move(members_); }

  bool begin(JsonContainer container) override {
    ++depth_;
    return depth_ > 1 || container == JsonContainer::object;
  }
  bool name(std::string_view /*content*/, std::string_view written) override {
    if (depth_ > 1) return true;
    auto name = json_string(written);  // a name, unlike a value, must be valid Unicode
    if (!name || std::ranges::find(members_, *name, &JsonMember::name) != members_.end()) return false;
    members_.push_back({.name = *std::move(name), .value = {}});
    return members_.size() <= most_members;
  }
  bool scalar(const JsonScalar& value) override { return ended(value.written); }
  bool end(JsonContainer /*container*/, std::string_view written) override {
    --depth_;
    return depth_ == 0 || ended(written);
  }

 private:
  bool ended(std::string_view written) {
    if (depth_ == 1) members_.back().value = written;
    return depth_ > 0;  // a document that is no object is refused here
  }

  std::vector<JsonMember> members_;
  std::size_t depth_ = 0;  // the number of open containers
};

}  // namespace

std::optional<std::string> json_string(std::string_view value) {
  JsonScanner scan(value);
  std::string_view content;
  if (scan.peek() != '"' || !scan.read_string(content) || !scan.at_end()) return std::nullopt;
  return std::string(content);
}

bool is_json_value(std::string_view json) {
  AnyValue any;
  return walk_json(json, {.depth = max_members_depth, .values = JsonValues::any}, any);
}

std::optional<std::vector<JsonMember>> json_members(std::string_view json) {
  MemberReader reader;
  if (!walk_json(json, {.depth = max_members_depth + 1, .values = JsonValues::any}, reader)) return std::nullopt;
  return reader.take();
}

}  // namespace once::claims
