// One pass and no tree: canonical text is written while the document is read, and the members of an object are sorted
// when it closes. A tree would take many times the size of a body such as [1,1,1,…]; this takes about twice its size.
#include "core/json_canonical.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include "core/json_pointer.hpp"
#include "core/json_scanner.hpp"
#include "core/json_text.hpp"

namespace once::core {

namespace {

// Compares UTF-8 in the order of UTF-16 code units. That is byte order with one exception: U+E000-U+FFFF (first byte
// 0xee or 0xef) come after code points past U+FFFF (0xf0 and above), whose surrogates are 0xd800-0xdfff.
bool utf16_less(std::string_view a, std::string_view b) {
  const auto [at_a, at_b] = std::ranges::mismatch(a, b);
  if (at_a == a.end() || at_b == b.end()) return a.size() < b.size();
  const auto left = static_cast<unsigned char>(*at_a);
  const auto right = static_cast<unsigned char>(*at_b);
  if (left >= 0xee && right >= 0xee && (left >= 0xf0) != (right >= 0xf0)) return left >= 0xf0;
  return left < right;
}

class Canonical {
 public:
  Canonical(std::string_view json, PointerSet include, PointerSet exclude)
      : scan_(json), include_(std::move(include)), exclude_(std::move(exclude)), included_(include_.size()) {
    out_.reserve(json.size());
  }

  bool read() {
    bool kept = false;
    if (!read_place(kept)) return false;
    scan_.skip_space();
    return scan_.at_end();
  }

  std::string take_text() { return std::move(out_); }
  // The values at the include pointers, in the order of the pointers; nullopt for those without a value.
  std::span<const std::optional<std::string>> included() const { return included_; }

 private:
  // A member of an object that is still open: its name in names_, and `"name":value,` in out_ (nothing if excluded).
  struct Member {
    std::uint32_t name_begin;
    std::uint32_t name_end;
    std::uint32_t text_begin;
    std::uint32_t text_end;
  };

  // Each reads one element and writes it to out_; false if the document has no canonical form.
  bool read_place(bool& kept);
  bool read_value();
  bool read_object();
  bool read_member();
  bool read_array();
  bool order_members(std::size_t first_member);
  void close(std::size_t begin, char bracket);

  std::string_view name_of(const Member& member) const {
    return std::string_view(names_).substr(member.name_begin, member.name_end - member.name_begin);
  }

  JsonScanner scan_;
  std::size_t depth_ = 0;

  std::string out_;
  std::string names_;            // unescaped names in the objects that are open
  std::vector<Member> members_;  // members of the objects that are open
  std::string unordered_;        // the members of an object while they are sorted

  PointerSet include_;
  PointerSet exclude_;
  std::size_t excluded_around_ = 0;  // the number of enclosing values that are excluded
  std::vector<std::optional<std::string>> included_;
};

// Reads the value at the current position of both pointer sets. An excluded value is read, because it may be invalid,
// but not kept.
bool Canonical::read_place(bool& kept) {
  kept = !exclude_.any_leads_here();
  const std::size_t begin = out_.size();
  if (!kept) ++excluded_around_;
  if (!read_value()) return false;
  if (!kept) {
    --excluded_around_;
    out_.resize(begin);
  } else if (excluded_around_ == 0) {
    for (std::size_t i = 0; i < include_.size(); ++i) {
      if (include_.leads_here(i)) included_[i] = out_.substr(begin);
    }
  }
  return true;
}

bool Canonical::read_value() {
  scan_.skip_space();
  switch (scan_.peek()) {
    case '{': return read_object();
    case '[': return read_array();
    case '"': {
      std::string_view content;
      if (!scan_.read_string(content)) return false;
      append_json_string(out_, content);
      return true;
    }
    case 't': return scan_.read_word(out_, "true");
    case 'f': return scan_.read_word(out_, "false");
    case 'n': return scan_.read_word(out_, "null");
    default: return scan_.read_number(out_);
  }
}

bool Canonical::read_object() {
  if (++depth_ > max_json_depth) return false;
  const std::size_t begin = out_.size();
  const std::size_t first_member = members_.size();
  const std::size_t first_name = names_.size();
  out_ += '{';
  scan_.take('{');
  scan_.skip_space();
  if (!scan_.take('}')) {
    do {
      if (!read_member()) return false;
      scan_.skip_space();
    } while (scan_.take(','));
    if (!scan_.take('}')) return false;
  }
  if (!order_members(first_member)) return false;
  close(begin, '}');
  members_.resize(first_member);
  names_.resize(first_name);
  --depth_;
  return true;
}

bool Canonical::read_member() {
  scan_.skip_space();
  std::string_view name;
  if (scan_.peek() != '"' || !scan_.read_string(name)) return false;
  const std::size_t name_begin = names_.size();
  const std::size_t text_begin = out_.size();
  names_ += name;
  const std::size_t name_end = names_.size();
  append_json_string(out_, name);
  out_ += ':';
  include_.enter(name);
  exclude_.enter(name);
  scan_.skip_space();
  if (!scan_.take(':')) return false;

  bool kept = false;
  if (!read_place(kept)) return false;
  include_.leave();
  exclude_.leave();
  if (kept) {
    out_ += ',';
  } else {
    out_.resize(text_begin);
  }
  members_.push_back({.name_begin = static_cast<std::uint32_t>(name_begin),
                      .name_end = static_cast<std::uint32_t>(name_end),
                      .text_begin = static_cast<std::uint32_t>(text_begin),
                      .text_end = static_cast<std::uint32_t>(out_.size())});
  return true;
}

// False if two members have the same name: parsers disagree on which one counts.
bool Canonical::order_members(std::size_t first_member) {
  const std::span<Member> members = std::span(members_).subspan(first_member);
  const auto less = [this](const Member& a, const Member& b) { return utf16_less(name_of(a), name_of(b)); };
  const auto same = [this](const Member& a, const Member& b) { return name_of(a) == name_of(b); };
  if (!std::ranges::is_sorted(members, less)) {
    const std::size_t begin = members.front().text_begin;
    unordered_.assign(out_, begin);
    out_.resize(begin);
    std::ranges::sort(members, less);
    for (const Member& member : members) {
      out_.append(unordered_, member.text_begin - begin, member.text_end - member.text_begin);
    }
  }
  return std::ranges::adjacent_find(members, same) == members.end();
}

bool Canonical::read_array() {
  if (++depth_ > max_json_depth) return false;
  const bool watched = !include_.empty() || !exclude_.empty();
  const std::size_t begin = out_.size();
  out_ += '[';
  scan_.take('[');
  scan_.skip_space();
  if (!scan_.take(']')) {
    std::size_t index = 0;
    do {
      if (watched) {
        std::array<char, 20> digits{};
        const auto end = std::to_chars(digits.begin(), digits.end(), index).ptr;
        include_.enter({digits.begin(), end});
        exclude_.enter({digits.begin(), end});
      }
      bool kept = false;
      if (!read_place(kept)) return false;
      if (kept) out_ += ',';
      if (watched) {
        include_.leave();
        exclude_.leave();
      }
      ++index;
      scan_.skip_space();
    } while (scan_.take(','));
    if (!scan_.take(']')) return false;
  }
  close(begin, ']');
  --depth_;
  return true;
}

// Every member and element ends in a comma; replaces the last comma by the bracket.
void Canonical::close(std::size_t begin, char bracket) {
  if (out_.size() == begin + 1) {
    out_ += bracket;
  } else {
    out_.back() = bracket;
  }
}

std::string object_of(std::span<const std::string> pointers, std::span<const std::optional<std::string>> values) {
  std::string out = "{";
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    if (!values[i]) continue;
    if (out.size() > 1) out += ',';
    append_json_string(out, pointers[i]);
    out += ':';
    out += *values[i];
  }
  out += '}';
  return out;
}

}  // namespace

std::optional<std::string> canonical_json(std::string_view json, std::span<const std::string> include,
                                          std::span<const std::string> exclude) {
  if (json.size() > max_json_bytes) return std::nullopt;
  // Sorted and without duplicates, so that their order in the settings does not matter.
  std::vector<std::string> included(include.begin(), include.end());
  std::ranges::sort(included, utf16_less);
  included.erase(std::ranges::unique(included).begin(), included.end());

  auto include_set = PointerSet::make(included);
  auto exclude_set = PointerSet::make(exclude);
  if (!include_set || !exclude_set) return std::nullopt;
  Canonical canonical(json, std::move(*include_set), std::move(*exclude_set));
  if (!canonical.read()) return std::nullopt;
  if (included.empty()) return canonical.take_text();
  return object_of(included, canonical.included());
}

}  // namespace once::core
