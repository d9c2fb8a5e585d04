// Entity tags (RFC 9110, 8.8.3): parses If-Match and If-None-Match, matches tags, and computes a tag for a
// representation that has none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/layers.hpp"

namespace once::core {

// What distinguishes a representation from others of the same resource.
struct Representation {
  std::string_view content_type;
  std::string_view content_encoding;
  std::string_view body;
};

// A strong tag with its quotes. It is the same for the same bytes, type and encoding, on every gateway and after every
// restart.
std::string make_etag(const Representation& representation);

enum class TagComparison : std::uint8_t {
  strong,  // the bytes are equal: a weak tag never matches
  weak,    // equal apart from W/
};

// The tags of one condition, or `*`. Holds views of what was added.
class TagList {
 public:
  // Adds the value of one field; a condition may have several. Fails if it is malformed; then the list must not be
  // used.
  [[nodiscard]] bool add(std::string_view value);

  bool empty() const { return !any_ && tags_.empty(); }
  // `*`: matches any representation.
  bool any() const { return any_; }
  // Whether the list contains this tag. `*` contains every tag.
  bool has(std::string_view tag, TagComparison comparison) const;

 private:
  bool any_ = false;
  std::vector<std::string_view> tags_;  // including W/ and quotes
};

// The conditions of a write on the current state.
struct Precondition {
  TagList match;       // If-Match: the current tag must be one of these
  TagList none_match;  // If-None-Match: the current tag must be none of these

  bool empty() const { return match.empty() && none_match.empty(); }
};

// The current state of a resource.
struct CurrentState {
  bool exists = false;
  std::optional<std::string> tag;  // absent: it has no tag, because it is too large or does not exist
};

bool holds(const Precondition& precondition, const CurrentState& current);

}  // namespace once::core
