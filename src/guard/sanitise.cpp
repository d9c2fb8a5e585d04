#include <algorithm>
#include <set>

#include <once/guard.hpp>

#include "base/text.hpp"
#include "core/json_canonical.hpp"
#include "core/json_scanner.hpp"

namespace once::guard {

namespace {

using Path = std::vector<std::string>;

std::vector<Path> paths_of(const std::vector<std::string>& names) {
  std::vector<Path> paths;
  paths.reserve(names.size());
  for (const std::string& each : names) {
    Path path;
    for (const std::string_view part : split(each, '.')) path.emplace_back(part);
    paths.push_back(std::move(path));
  }
  return paths;
}

// Reads a value and appends what is kept of it. Every read_ returns false if the text is not valid; what is not kept is
// read all the same.
class Filter {
 public:
  Filter(std::string_view json, const Sanitise& what)
      : json_(json), scan_(json), only_(paths_of(what.store_only)), never_(paths_of(what.never_store)) {}

  std::optional<std::string> filtered() {
    std::string out;
    scan_.skip_space();
    // A value without members has none of those that may be stored.
    const bool scalar = !only_.empty() && scan_.peek() != '{' && scan_.peek() != '[';
    if (!read_value(out, only_.empty() ? Inside::kept : Inside::looked_into, 0)) return std::nullopt;
    scan_.skip_space();
    if (!scan_.at_end()) return std::nullopt;
    return scalar ? "null" : std::move(out);
  }

 private:
  enum class Inside : std::uint8_t { kept, looked_into };
  enum class Fate : std::uint8_t { kept, looked_into, dropped };

  bool read_value(std::string& out, Inside inside, std::size_t depth) {
    if (depth > max_json_depth) return false;
    switch (scan_.peek()) {
      case '{': return read_object(out, inside, depth);
      case '[': return read_array(out, inside, depth);
      default: return read_scalar(out);
    }
  }

  bool read_scalar(std::string& out) {
    const std::size_t begin = scan_.at();
    std::string ignored;
    std::string_view content;
    bool valid = false;
    switch (scan_.peek()) {
      case '"': valid = scan_.read_string(content); break;
      case 't': valid = scan_.read_word(ignored, "true"); break;
      case 'f': valid = scan_.read_word(ignored, "false"); break;
      case 'n': valid = scan_.read_word(ignored, "null"); break;
      default: valid = scan_.read_number(ignored);
    }
    if (valid) out += json_.substr(begin, scan_.at() - begin);
    return valid;
  }

  bool read_array(std::string& out, Inside inside, std::size_t depth) {
    scan_.take('[');
    out += '[';
    scan_.skip_space();
    if (!scan_.take(']')) {
      std::size_t kept = 0;
      do {
        scan_.skip_space();
        // Of an element that is no object or array nothing was asked for.
        const bool keeps = inside == Inside::kept || scan_.peek() == '{' || scan_.peek() == '[';
        std::string dropped;
        if (keeps && kept++ > 0) out += ',';
        if (!read_value(keeps ? out : dropped, inside, depth + 1)) return false;
        scan_.skip_space();
      } while (scan_.take(','));
      if (!scan_.take(']')) return false;
    }
    out += ']';
    return true;
  }

  bool read_object(std::string& out, Inside inside, std::size_t depth) {
    scan_.take('{');
    out += '{';
    scan_.skip_space();
    if (!scan_.take('}')) {
      std::set<std::string, std::less<>> seen;
      std::size_t kept = 0;
      do {
        if (!read_member(out, inside, depth, seen, kept)) return false;
        scan_.skip_space();
      } while (scan_.take(','));
      if (!scan_.take('}')) return false;
    }
    out += '}';
    return true;
  }

  bool read_member(std::string& out, Inside inside, std::size_t depth, std::set<std::string, std::less<>>& seen,
                   std::size_t& kept) {
    scan_.skip_space();
    const std::size_t begin = scan_.at();
    std::string_view content;
    if (scan_.peek() != '"' || !scan_.read_string(content)) return false;
    const std::string_view written = json_.substr(begin, scan_.at() - begin);
    path_.emplace_back(content);
    // Two members of one name: whoever reads it later may see the other one.
    if (!seen.insert(path_.back()).second) return false;
    scan_.skip_space();
    if (!scan_.take(':')) return false;
    scan_.skip_space();
    Fate fate = fate_of(inside);
    // A scalar where something below it was asked for.
    if (fate == Fate::looked_into && scan_.peek() != '{' && scan_.peek() != '[') fate = Fate::dropped;
    std::string value;
    if (!read_value(value, fate == Fate::looked_into ? Inside::looked_into : Inside::kept, depth + 1)) return false;
    path_.pop_back();
    if (fate == Fate::dropped) return true;
    if (kept++ > 0) out += ',';
    out.append(written).append(":").append(value);
    return true;
  }

  Fate fate_of(Inside inside) const {
    const auto ends_with = [this](const Path& path) {
      return path.size() <= path_.size() && std::equal(path.rbegin(), path.rend(), path_.rbegin());
    };
    if (std::ranges::any_of(never_, ends_with)) return Fate::dropped;
    if (inside == Inside::kept) return Fate::kept;
    Fate fate = Fate::dropped;
    for (const Path& path : only_) {
      const std::size_t common = std::min(path.size(), path_.size());
      if (!std::equal(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(common), path_.begin())) continue;
      if (path.size() <= path_.size()) return Fate::kept;
      fate = Fate::looked_into;
    }
    return fate;
  }

  std::string_view json_;
  JsonScanner scan_;
  std::vector<Path> only_;
  std::vector<Path> never_;
  Path path_;  // names of the members on the way here
};

}  // namespace

std::optional<std::string> sanitise(std::string_view json, const Sanitise& what) {
  return Filter(json, what).filtered();
}

}  // namespace once::guard
