#include "gateway/identity/routes.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/assert.hpp"
#include "core/headers.hpp"
#include "core/host.hpp"
#include "core/path.hpp"

namespace once::gateway {

namespace {

std::string_view without_last_slash(std::string_view path) {
  return path.size() > 1 && path.ends_with('/') ? path.substr(0, path.size() - 1) : path;
}

}  // namespace

PathPattern::PathPattern(std::string_view pattern) {
  ONCE_ASSERT(pattern.starts_with('/'));
  pattern = without_last_slash(pattern);
  pattern.remove_prefix(1);
  while (true) {
    const std::size_t slash = pattern.find('/');
    const std::string_view segment = pattern.substr(0, slash);
    if (segment == "**") {
      any_rest_ = true;
      return;
    }
    const bool any = segment == "*" || (segment.starts_with('{') && segment.ends_with('}'));
    segments_.push_back({.literal = any ? std::string() : normalise_segment(segment), .any = any});
    if (slash == std::string_view::npos) return;
    pattern.remove_prefix(slash + 1);
  }
}

bool PathPattern::matches(std::string_view path) const {
  if (!path.starts_with('/')) return false;
  path = without_last_slash(path);
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

HostPattern::HostPattern(std::string_view pattern) {
  std::string scratch;
  below_ = pattern.starts_with("*.");
  name_ = name_in(below_ ? pattern.substr(1) : pattern, scratch);
}

std::string_view HostPattern::name_in(std::string_view host, std::string& scratch) {
  const std::string_view normal = normalise_host(host, scratch);
  const std::size_t bracket = normal.find(']');  // colons before it belong to an IPv6 address
  return normal.substr(0, normal.find(':', bracket == std::string_view::npos ? 0 : bracket));
}

bool HostPattern::matches(std::string_view name) const {
  return below_ ? name.size() > name_.size() && name.ends_with(name_) : name == name_;
}

bool HostPattern::covers(const HostPattern& other) const {
  if (other.below_) return below_ && other.name_.ends_with(name_);
  return matches(other.name_);
}

std::string route_label(const Route& route) {
  return fmt::format("{}{}", fmt::join(route.hosts, ","), route.path);
}

Routes::Routes(const std::vector<Route>& routes, const std::vector<Upstream>& upstreams) {
  for (const Route& route : routes) {
    const auto named = std::ranges::find(upstreams, route.upstream, &Upstream::name);
    ONCE_ASSERT(named != upstreams.end());
    any_hosts_ = any_hosts_ || !route.hosts.empty();
    entries_.push_back({.label = route_label(route),
                        .hosts = {route.hosts.begin(), route.hosts.end()},
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

RoutedPolicy Routes::find(Method method, std::string_view path, std::string_view host) const {
  std::string scratch;
  const std::string_view name = any_hosts_ ? HostPattern::name_in(host, scratch) : std::string_view();
  const auto is_for = [&](const Entry& entry) {
    return entry.hosts.empty() ||
           std::ranges::any_of(entry.hosts, [name](const HostPattern& each) { return each.matches(name); });
  };
  for (const Entry& entry : entries_) {
    if (!is_for(entry)) continue;
    if (entry.methods && !contains(*entry.methods, method)) continue;
    if (!entry.pattern.matches(path)) continue;
    return {.policy = &entry.policy,
            .upstream = entry.upstream,
            .index = static_cast<std::size_t>(&entry - entries_.data()),
            .route = entry.label,
            .strip_prefix = entry.strip_prefix};
  }
  return none();
}

RoutedPolicy Routes::none() const {
  return {.policy = nullptr, .upstream = 0, .index = entries_.size(), .route = {}, .strip_prefix = {}};
}

}  // namespace once::gateway
