// JSON pointers (RFC 6901), and a set of them that matches positions while a document is parsed.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/layers.hpp"

namespace once::core {

// Whether this is a valid pointer: empty, or "/" before each token, and ~ only in ~0 and ~1. For checking settings.
bool is_json_pointer(std::string_view text);

// The tokens, unescaped. nullopt if the pointer is invalid.
std::optional<std::vector<std::string>> pointer_tokens(std::string_view pointer);

// Tracks which of the pointers lead to the parser's position. It starts at the root; calls of enter() and leave() are
// paired. An array index is entered as decimal digits, so a token such as "01" or "-" never matches.
class PointerSet {
 public:
  // nullopt if a pointer is invalid.
  static std::optional<PointerSet> make(std::span<const std::string> pointers);

  bool empty() const { return pointers_.empty(); }
  std::size_t size() const { return pointers_.size(); }

  void enter(std::string_view token);
  void leave();

  // Whether the pointer at `index` leads exactly to this position.
  bool leads_here(std::size_t index) const;
  bool any_leads_here() const;

 private:
  struct Pointer {
    std::vector<std::string> tokens;
    std::size_t matched = 0;  // how many of its tokens match the path from the root
  };
  std::vector<Pointer> pointers_;
  std::size_t depth_ = 0;
};

}  // namespace once::core
