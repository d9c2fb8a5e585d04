#include "core/json_pointer.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace once::core {

std::optional<std::vector<std::string>> pointer_tokens(std::string_view pointer) {
  std::vector<std::string> tokens;
  if (pointer.empty()) return tokens;
  if (pointer.front() != '/') return std::nullopt;
  for (std::size_t i = 0; i < pointer.size(); ++i) {
    if (pointer[i] == '/') {
      tokens.emplace_back();
    } else if (pointer[i] == '~') {
      ++i;
      if (i == pointer.size() || (pointer[i] != '0' && pointer[i] != '1')) return std::nullopt;
      tokens.back() += pointer[i] == '0' ? '~' : '/';
    } else {
      tokens.back() += pointer[i];
    }
  }
  return tokens;
}

bool is_json_pointer(std::string_view text) {
  return pointer_tokens(text).has_value();
}

std::optional<PointerSet> PointerSet::make(std::span<const std::string> pointers) {
  PointerSet set;
  set.pointers_.reserve(pointers.size());
  for (const std::string& pointer : pointers) {
    auto tokens = pointer_tokens(pointer);
    if (!tokens) return std::nullopt;
    set.pointers_.push_back({.tokens = std::move(*tokens)});
  }
  return set;
}

void PointerSet::enter(std::string_view token) {
  for (Pointer& pointer : pointers_) {
    const bool led_here = pointer.matched == depth_;
    if (led_here && depth_ < pointer.tokens.size() && pointer.tokens[depth_] == token) ++pointer.matched;
  }
  ++depth_;
}

void PointerSet::leave() {
  ONCE_ASSERT(depth_ > 0);
  --depth_;
  for (Pointer& pointer : pointers_) pointer.matched = std::min(pointer.matched, depth_);
}

bool PointerSet::leads_here(std::size_t index) const {
  const Pointer& pointer = pointers_[index];
  return pointer.matched == depth_ && pointer.tokens.size() == depth_;
}

bool PointerSet::any_leads_here() const {
  for (std::size_t i = 0; i < pointers_.size(); ++i) {
    if (leads_here(i)) return true;
  }
  return false;
}

}  // namespace once::core
