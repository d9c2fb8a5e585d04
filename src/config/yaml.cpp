#include "config/yaml.hpp"

#include <algorithm>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include "base/text.hpp"

namespace once::config {

namespace {

// An alias may contain itself, and nested aliases grow exponentially: limit depth and nodes.
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

// The beginning of a document and of its last scalar; ignores other events.
class Marks final : public YAML::EventHandler {
 public:
  YAML::Mark start;
  YAML::Mark last_scalar;

  void OnDocumentStart(const YAML::Mark& at) override { start = at; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark& at, const std::string&, YAML::anchor_t, const std::string&) override {
    last_scalar = at;
  }
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// YAML::LoadAll() would find a second document, but loops forever on a text such as ",": it returns empty documents
// without consuming the text.
std::optional<YamlError> second_document(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Marks first;
  Marks second;
  if (!parser.HandleNextDocument(first) || !parser.HandleNextDocument(second)) return std::nullopt;
  const bool stuck = second.start.pos == first.start.pos;
  return YamlError{second.start.line + 1, second.start.column + 1,
                   stuck ? "not valid YAML: unexpected text" : "only one document is allowed"};
}

// The error with which yaml-cpp ends the first document, if any. `marks` has what was read before it.
std::optional<YAML::Exception> first_error(const std::string& text, Marks& marks) {
  try {
    std::istringstream stream(text);
    YAML::Parser(stream).HandleNextDocument(marks);
    return std::nullopt;
  } catch (const YAML::Exception& exception) {
    return exception;
  }
}

// An unterminated quoted text. yaml-cpp only reports it if a character other than a line end is last in the file;
// otherwise it reads the rest of the file as the text. No other mistake causes this error.
std::optional<YamlError> open_quote(const std::string& text) {
  Marks ignored;
  const auto with_a_character = first_error(text + "x", ignored);
  if (!with_a_character || with_a_character->msg != YAML::ErrorMsg::EOF_IN_SCALAR) return std::nullopt;
  Marks marks;
  static_cast<void>(first_error(text + "\n", marks));
  return YamlError{marks.last_scalar.line + 1, marks.last_scalar.column + 1,
                   "not valid YAML: a quoted string begins here, and its closing quote is missing"};
}

bool is_indented_by_tab(std::string_view text, int line) {
  const std::vector<std::string_view> lines = split(text, '\n');
  if (line < 1 || static_cast<std::size_t>(line) > lines.size()) return false;
  const std::string_view whole = lines[static_cast<std::size_t>(line) - 1];
  return whole.substr(0, whole.find_first_not_of(" \t")).contains('\t');
}

YamlError syntax_error(const YAML::Exception& exception, std::string_view text) {
  YamlError error;
  error.line = std::max(exception.mark.line, 0) + 1;
  error.column = std::max(exception.mark.column, 0) + 1;
  if (is_indented_by_tab(text, error.line)) {
    error.text = "not valid YAML: this line is indented with a tab; use spaces";
    return error;
  }
  error.text = "not valid YAML: " + exception.msg;
  if (exception.msg == YAML::ErrorMsg::MAP_VALUE) error.text += " (a value that ends in \":\" must be in quotes)";
  return error;
}

}  // namespace

std::expected<YamlNode, YamlError> parse_yaml(std::string_view text) {
  try {
    const std::string copy(text);
    if (const auto error = open_quote(copy)) return std::unexpected(*error);
    if (const auto error = second_document(copy)) return std::unexpected(*error);
    return Converter().convert(YAML::Load(copy), 0);
  } catch (const YAML::Exception& exception) {
    return std::unexpected(syntax_error(exception, text));
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

}  // namespace once::config
