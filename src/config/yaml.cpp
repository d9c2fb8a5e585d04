#include "config/yaml.hpp"

#include <algorithm>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include "base/text.hpp"

namespace once {

namespace {

// An alias may hold itself, and aliases of aliases grow without end: both are cut off here.
constexpr int deepest = 16;
constexpr int most_nodes = 100'000;

class Converter {
 public:
  std::expected<YamlNode, YamlError> convert(const YAML::Node& from, int depth) {
    YamlNode node;
    node.line = from.Mark().line + 1;
    node.column = from.Mark().column + 1;
    if (depth > deepest) return std::unexpected(YamlError{node.line, node.column, "nested too deeply"});
    if (++nodes_ > most_nodes) return std::unexpected(YamlError{node.line, node.column, "too large"});
    switch (from.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null: return node;
      case YAML::NodeType::Scalar:
        node.kind = YamlNode::Kind::scalar;
        node.text = from.Scalar();
        return node;
      case YAML::NodeType::Sequence: node.kind = YamlNode::Kind::list; break;
      case YAML::NodeType::Map: node.kind = YamlNode::Kind::map; break;
    }
    for (const auto& child : from) {
      const bool added = node.kind == YamlNode::Kind::list
                             ? add(node, child, depth)
                             : add(node, child.first, depth) && add(node, child.second, depth);
      if (!added) return std::unexpected(error_);
    }
    return node;
  }

 private:
  bool add(YamlNode& to, const YAML::Node& child, int depth) {
    auto converted = convert(child, depth + 1);
    if (!converted) {
      error_ = converted.error();
      return false;
    }
    to.children.push_back(std::move(*converted));
    return true;
  }

  int nodes_ = 0;
  YamlError error_;
};

// Where a document begins; the rest of it is of no interest.
class DocumentStart final : public YAML::EventHandler {
 public:
  YAML::Mark mark;

  void OnDocumentStart(const YAML::Mark& at) override { mark = at; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// YAML::LoadAll() would say the same, but never ends on a text such as ",": it makes of it, again and again, an empty
// document, and takes nothing from the text.
std::optional<YamlError> second_document(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentStart first;
  DocumentStart second;
  if (!parser.HandleNextDocument(first) || !parser.HandleNextDocument(second)) return std::nullopt;
  const bool stuck = second.mark.pos == first.mark.pos;
  return YamlError{second.mark.line + 1, second.mark.column + 1,
                   stuck ? "not valid YAML: this cannot stand here" : "only one document is allowed"};
}

YamlError syntax_error(const YAML::Exception& exception) {
  YamlError error;
  error.line = std::max(exception.mark.line, 0) + 1;
  error.column = std::max(exception.mark.column, 0) + 1;
  error.text = "not valid YAML: " + exception.msg;
  if (exception.msg == YAML::ErrorMsg::MAP_VALUE) error.text += " (a value that ends in \":\" must be in quotes)";
  return error;
}

}  // namespace

std::expected<YamlNode, YamlError> parse_yaml(std::string_view text) {
  try {
    const std::string copy(text);
    if (const auto error = second_document(copy)) return std::unexpected(*error);
    return Converter().convert(YAML::Load(copy), 0);
  } catch (const YAML::Exception& exception) {
    return std::unexpected(syntax_error(exception));
  }
}

std::string yaml_scalar(std::string_view text) {
  constexpr std::string_view safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:";
  constexpr std::string_view unsafe_first = "-:.";
  const bool plain = !text.empty() && text.find_first_not_of(safe) == std::string_view::npos &&
                     !unsafe_first.contains(text.front()) && !text.ends_with(':') && !iequals(text, "null");
  if (plain) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace once
