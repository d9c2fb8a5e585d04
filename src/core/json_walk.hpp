// Walks one JSON text (RFC 8259, UTF-8) from its first byte to its last and calls a visitor for each element. Request
// bodies are not read this way but by canonical_json() (json_canonical.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/json_scanner.hpp"

namespace once::core {

enum class JsonContainer : std::uint8_t { object, array };

struct JsonScalar {
  enum class Kind : std::uint8_t { string, number, boolean, null };
  Kind kind = Kind::null;
  std::string_view content;  // a string without quotes and escapes, a number in canonical form, or the word
  std::string_view written;  // as in the text
};

// Each call returns false to stop the walk. Views of content are valid during the call, views of written text as long
// as the text.
class JsonVisitor {
 public:
  virtual bool begin(JsonContainer /*container*/) { return true; }
  // The name of an object's member; its value comes next.
  virtual bool name(std::string_view /*content*/, std::string_view /*written*/) { return true; }
  virtual bool scalar(const JsonScalar& /*value*/) { return true; }
  // `written` is the whole container including its brackets.
  virtual bool end(JsonContainer /*container*/, std::string_view /*written*/) { return true; }

 protected:
  ~JsonVisitor() = default;
};

struct JsonRules {
  std::size_t depth;  // nested containers
  JsonValues values = JsonValues::portable;
};

// False unless `json` is one valid JSON text within the rules and the visitor accepted all of it.
bool walk_json(std::string_view json, const JsonRules& rules, JsonVisitor& visitor);

}  // namespace once::core
