#include "core/json_tree.hpp"

#include <algorithm>

#include "core/json_canonical.hpp"
#include "core/json_walk.hpp"

namespace once::core {

namespace {

class TreeBuilder final : public JsonVisitor {
 public:
  JsonTree take() { return std::move(root_); }

  bool begin(JsonContainer container) override {
    open_.emplace_back(container == JsonContainer::object ? JsonTree::Value(JsonTree::Object())
                                                          : JsonTree::Value(JsonTree::Array()));
    return true;
  }

  bool name(std::string_view content, std::string_view /*written*/) override {
    std::get<JsonTree::Object>(open_.back()).emplace_back(content, JsonTree());
    return true;
  }

  bool scalar(const JsonScalar& value) override {
    switch (value.kind) {
      case JsonScalar::Kind::string: add(std::string(value.content)); break;
      case JsonScalar::Kind::number:
        add(JsonTree::Number{.text = std::string(value.written), .canonical = std::string(value.content)});
        break;
      case JsonScalar::Kind::boolean: add(value.content == "true"); break;
      case JsonScalar::Kind::null: add(JsonTree::Null()); break;
    }
    return true;
  }

  bool end(JsonContainer container, std::string_view /*written*/) override {
    JsonTree::Value value = std::move(open_.back());
    open_.pop_back();
    if (container == JsonContainer::object && !names_differ(std::get<JsonTree::Object>(value))) return false;
    add(std::move(value));
    return true;
  }

 private:
  void add(JsonTree::Value value) {
    if (open_.empty()) {
      root_ = JsonTree(std::move(value));
    } else if (auto* array = std::get_if<JsonTree::Array>(&open_.back())) {
      array->emplace_back(std::move(value));
    } else {
      std::get<JsonTree::Object>(open_.back()).back().second = JsonTree(std::move(value));
    }
  }

  // Parsers disagree on which of two members with the same name counts.
  static bool names_differ(const JsonTree::Object& members) {
    std::vector<std::string_view> names;
    names.reserve(members.size());
    for (const JsonTree::Member& member : members) names.push_back(member.first);
    std::ranges::sort(names);
    return std::ranges::adjacent_find(names) == names.end();
  }

  JsonTree root_;
  std::vector<JsonTree::Value> open_;  // the containers around the next value
};

}  // namespace

std::optional<JsonTree> JsonTree::parse(std::string_view json) {
  if (json.size() > max_json_bytes) return std::nullopt;
  TreeBuilder builder;
  if (!walk_json(json, {.depth = max_json_depth}, builder)) return std::nullopt;
  return builder.take();
}

const JsonTree* JsonTree::find(std::string_view name) const {
  const Object* members = object();
  if (members == nullptr) return nullptr;
  const auto found = std::ranges::find(*members, name, &Member::first);
  return found == members->end() ? nullptr : &found->second;
}

const JsonTree* JsonTree::find(const std::vector<std::string>& tokens) const {
  const JsonTree* at = this;
  for (const std::string& token : tokens) {
    if (at != nullptr) at = at->find(std::string_view(token));
  }
  return at;
}

}  // namespace once::core
