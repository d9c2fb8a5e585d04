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

// A representation as it is told from another one of the same resource.
struct Representation {
  std::string_view content_type;
  std::string_view content_encoding;
  std::string_view body;
};

// Strong, in its quotes: the same for the same bytes, type and encoding, at every gateway and after every restart.
std::string make_etag(const Representation& representation);

enum class TagComparison : std::uint8_t {
  strong,  // the same bytes: a weak tag is never equal
  weak,    // the same but for W/
};

// The tags of one condition, or `*`. Views into what was added.
class TagList {
 public:
  // The value of one field; a condition may come in several. False: malformed, and the list is of no use.
  [[nodiscard]] bool add(std::string_view value);

  bool empty() const { return !any_ && tags_.empty(); }
  // `*`: whatever there is.
  bool any() const { return any_; }
  // Whether the list has this tag. `*` has every one.
  bool has(std::string_view tag, TagComparison comparison) const;

 private:
  bool any_ = false;
  std::vector<std::string_view> tags_;  // with W/ and quotes
};

// What a write demands of the state that it finds.
struct Precondition {
  TagList match;       // If-Match: it must be one of these
  TagList none_match;  // If-None-Match: it must be none of these

  bool empty() const { return match.empty() && none_match.empty(); }
};

// A resource as it stands.
struct CurrentState {
  bool exists = false;
  std::optional<std::string> tag;  // absent: it has none, because it is too large or there is nothing to tag
};

bool holds(const Precondition& precondition, const CurrentState& current);

}  // namespace once::core
