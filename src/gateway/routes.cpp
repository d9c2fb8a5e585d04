#include "gateway/routes.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "core/headers.hpp"
#include "core/path.hpp"

namespace once {

PathPattern::PathPattern(std::string_view pattern) {
  ONCE_ASSERT(pattern.starts_with('/'));
  pattern.remove_prefix(1);
  while (true) {
    const std::size_t slash = pattern.find('/');
    const std::string_view segment = pattern.substr(0, slash);
    if (segment == "**") {
      any_rest_ = true;
      return;
    }
    const bool any = segment == "*" || (segment.starts_with('{') && segment.ends_with('}'));
    segments_.push_back({.literal = normalise_segment(segment), .any = any});
    if (slash == std::string_view::npos) return;
    pattern.remove_prefix(slash + 1);
  }
}

bool PathPattern::matches(std::string_view path) const {
  if (!path.starts_with('/')) return false;
  path.remove_prefix(1);
  bool ended = false;
  for (const Segment& segment : segments_) {
    if (ended) return false;
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (segment.any ? part.empty() : part != segment.literal) return false;
    ended = slash == std::string_view::npos;
    path.remove_prefix(ended ? path.size() : slash + 1);
  }
  return any_rest_ || ended;
}

Routes::Routes(const std::vector<Route>& routes, const std::vector<Upstream>& upstreams) {
  for (const Route& route : routes) {
    const auto named = std::ranges::find(upstreams, route.upstream, &Upstream::name);
    ONCE_ASSERT(named != upstreams.end());
    entries_.push_back({.path = route.path,
                        .pattern = PathPattern(route.path),
                        .methods = route.methods,
                        .policy = route.policy,
                        .upstream = static_cast<std::size_t>(named - upstreams.begin()),
                        .strip_prefix = route.strip_prefix});
  }
  common_wording_.error_object = !entries_.empty() && std::ranges::all_of(entries_, [](const Entry& entry) {
    return entry.policy.wording.error_object;
  });
}

RoutedPolicy Routes::find(Method method, std::string_view path) const {
  for (const Entry& entry : entries_) {
    if (entry.methods && !contains(*entry.methods, method)) continue;
    if (!entry.pattern.matches(path)) continue;
    return {.policy = &entry.policy,
            .upstream = entry.upstream,
            .index = static_cast<std::size_t>(&entry - entries_.data()),
            .route = entry.path,
            .strip_prefix = entry.strip_prefix};
  }
  return {.policy = nullptr, .upstream = 0, .index = entries_.size(), .route = {}, .strip_prefix = {}};
}

}  // namespace once
