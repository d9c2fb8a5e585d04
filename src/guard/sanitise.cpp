#include <algorithm>
#include <set>

#include <once/guard.hpp>

#include "base/text.hpp"
#include "core/json_canonical.hpp"
#include "core/json_walk.hpp"

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

// Writes the kept part of a value, and checks the rest too.
class Filter final : public JsonVisitor {
 public:
  explicit Filter(const Sanitise& what) : only_(paths_of(what.store_only)), never_(paths_of(what.never_store)) {}

  std::string take() { return std::move(out_); }

  bool begin(JsonContainer container) override {
    const Fate fate = fate_of_value();
    const bool writes = (open_.empty() || open_.back().writes) && fate != Fate::dropped;
    if (writes) separate();
    if (writes) out_ += container == JsonContainer::object ? '{' : '[';
    open_.push_back({.container = container, .inside = fate, .writes = writes});
    return true;
  }

  bool name(std::string_view content, std::string_view written) override {
    path_.emplace_back(content);
    written_name_ = written;
    // Parsers disagree on which of two members with the same name counts.
    return open_.back().seen.insert(path_.back()).second;
  }

  bool scalar(const JsonScalar& value) override {
    const bool kept = fate_of_value() == Fate::kept;
    if (open_.empty()) {
      // The text is a scalar. With store_only it has no listed member, so only null is stored.
      out_ = kept ? value.written : "null";
      return true;
    }
    if (open_.back().writes && kept) {
      separate();
      out_ += value.written;
    }
    leave_member();
    return true;
  }

  bool end(JsonContainer container, std::string_view /*written*/) override {
    if (open_.back().writes) out_ += container == JsonContainer::object ? '}' : ']';
    open_.pop_back();
    leave_member();
    return true;
  }

 private:
  enum class Fate : std::uint8_t { kept, looked_into, dropped };

  struct Open {
    JsonContainer container;
    Fate inside;  // the fate of array elements, and of members that are not listed
    bool writes;
    std::size_t written = 0;
    std::set<std::string, std::less<>> seen{};  // names of members
  };

  bool in_object() const { return !open_.empty() && open_.back().container == JsonContainer::object; }

  // Writes what precedes a value: the comma, and the member's name.
  void separate() {
    if (open_.empty()) return;
    if (open_.back().written++ > 0) out_ += ',';
    if (in_object()) out_.append(written_name_).append(":");
  }

  void leave_member() {
    if (in_object()) path_.pop_back();
  }

  // What happens to the next value. `looked_into`: a listed path may lead into it, so its listed members are kept; a
  // scalar there has no members and is dropped.
  Fate fate_of_value() const {
    if (open_.empty()) return only_.empty() ? Fate::kept : Fate::looked_into;
    const Fate inside = open_.back().inside;
    return in_object() ? fate_of_member(inside) : inside;
  }

  Fate fate_of_member(Fate inside) const {
    const auto ends_with = [this](const Path& path) {
      return path.size() <= path_.size() && std::equal(path.rbegin(), path.rend(), path_.rbegin());
    };
    if (std::ranges::any_of(never_, ends_with)) return Fate::dropped;
    if (inside != Fate::looked_into) return inside;
    Fate fate = Fate::dropped;
    for (const Path& path : only_) {
      const std::size_t common = std::min(path.size(), path_.size());
      if (!std::equal(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(common), path_.begin())) continue;
      if (path.size() <= path_.size()) return Fate::kept;
      fate = Fate::looked_into;
    }
    return fate;
  }

  const std::vector<Path> only_;
  const std::vector<Path> never_;
  std::string out_;
  std::vector<Open> open_;
  Path path_;  // names of the enclosing members
  std::string_view written_name_;
};

}  // namespace

std::optional<std::string> sanitise(std::string_view json, const Sanitise& what) {
  Filter filter(what);
  if (!walk_json(json, {.depth = max_json_depth}, filter)) return std::nullopt;
  return filter.take();
}

}  // namespace once::guard
