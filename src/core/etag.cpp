#include "core/etag.hpp"

#include <algorithm>
#include <cstddef>

#include "base/bytes.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"

namespace once::core {

namespace {

constexpr std::string_view etag_domain = "once etag 1";
constexpr std::string_view weak_mark = "W/";
constexpr std::size_t tag_bytes = 16;

// Obs-text is allowed, blanks are not.
bool is_tag_character(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte == 0x21 || (byte >= 0x23 && byte != 0x7F);
}

// The length of the tag at the start of `text`; 0 if there is none.
std::size_t tag_length(std::string_view text) {
  std::size_t at = text.starts_with(weak_mark) ? weak_mark.size() : 0;
  if (at >= text.size() || text[at] != '"') return 0;
  ++at;
  while (at < text.size() && is_tag_character(text[at])) ++at;
  return at < text.size() && text[at] == '"' ? at + 1 : 0;
}

bool is_weak(std::string_view tag) {
  return tag.starts_with(weak_mark);
}

std::string_view opaque(std::string_view tag) {
  return is_weak(tag) ? tag.substr(weak_mark.size()) : tag;
}

}  // namespace

std::string make_etag(const Representation& representation) {
  Sha256 hash;
  hash.update_part(etag_domain);
  hash.update_part(representation.content_type);
  hash.update_part(representation.content_encoding);
  hash.update_part(representation.body);
  const Digest digest = hash.digest();
  std::string tag = "\"";
  append_hex(tag, {reinterpret_cast<const char*>(digest.data()), tag_bytes});
  tag.push_back('"');
  return tag;
}

// A tag may contain a comma, so the list cannot be split at commas first.
bool TagList::add(std::string_view value) {
  value = trim(value);
  if (value == "*") {
    if (any_ || !tags_.empty()) return false;
    any_ = true;
    return true;
  }
  bool found = false;
  while (!value.empty()) {
    if (value.front() == ',') {  // an empty element
      value = trim(value.substr(1));
      continue;
    }
    const std::size_t length = tag_length(value);
    if (length == 0) return false;
    tags_.push_back(value.substr(0, length));
    found = true;
    value = trim(value.substr(length));
    if (!value.empty() && value.front() != ',') return false;
  }
  return found && !any_;
}

bool TagList::has(std::string_view tag, TagComparison comparison) const {
  if (any_) return true;
  if (comparison == TagComparison::strong && is_weak(tag)) return false;
  return std::ranges::any_of(tags_, [&](std::string_view listed) {
    return comparison == TagComparison::strong ? listed == tag : opaque(listed) == opaque(tag);
  });
}

bool holds(const Precondition& precondition, const CurrentState& current) {
  if (!precondition.match.empty()) {
    if (!current.exists) return false;
    const bool named = current.tag && precondition.match.has(*current.tag, TagComparison::strong);
    if (!precondition.match.any() && !named) return false;
  }
  if (!precondition.none_match.empty() && current.exists) {
    const bool named = current.tag && precondition.none_match.has(*current.tag, TagComparison::weak);
    if (precondition.none_match.any() || named) return false;
  }
  return true;
}

}  // namespace once::core
