// Finds the route of a request: the first in the file whose hosts, path pattern and methods match. Paths are in normal
// form (core/path.hpp) and compared byte for byte, segment by segment.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/settings.hpp"

namespace once::gateway {

// "/v1/*/items/{id}/**": `*` and `{name}` match one segment, `**` at the end matches any rest, also none. A trailing
// slash is ignored in patterns and paths, because many backends ignore it.
class PathPattern {
 public:
  explicit PathPattern(std::string_view pattern);
  // `path` is in normal form.
  bool matches(std::string_view path) const;
  // Whether both match the same paths; names in braces are ignored.
  bool operator==(const PathPattern&) const = default;

 private:
  struct Segment {
    std::string literal;  // empty: any segment
    bool any = false;
    bool operator==(const Segment&) const = default;
  };
  std::vector<Segment> segments_;
  bool any_rest_ = false;
};

// "api.example.com", or "*.example.com" for every name that ends in .example.com. Ports are ignored.
class HostPattern {
 public:
  explicit HostPattern(std::string_view pattern);

  // The part of a Host that is matched: lower case, without port and trailing dot. The result is a view of `host` or
  // `scratch`.
  static std::string_view name_in(std::string_view host, std::string& scratch);
  // `name` comes from name_in().
  bool matches(std::string_view name) const;
  // Whether it matches everything that `other` matches.
  bool covers(const HostPattern& other) const;

 private:
  std::string name_;
  bool below_ = false;  // matches every name that ends in name_, which begins with a dot
};

// The name of a route in metrics, the access log and for operators: its path, preceded by its hosts if it has any.
std::string route_label(const Route& route);

struct RoutedPolicy {
  const Policy* policy;           // null: no route matches, the request passes through
  std::size_t upstream;           // index into the upstreams
  std::size_t index;              // of the route in the file; the number of routes if none matches
  std::string_view route;         // its label
  std::string_view strip_prefix;  // removed from the path before it goes to the backend
};

class Routes {
 public:
  // Upstream names have been checked, and there is at least one upstream.
  Routes(const std::vector<Route>& routes, const std::vector<Upstream>& upstreams);

  // `path` is in normal form; `host` is as the request has it, or empty.
  RoutedPolicy find(Method method, std::string_view path, std::string_view host) const;
  // The result of find() if no route matches.
  RoutedPolicy none() const;
  // The wording of problems without a route: that of the error object, if all routes use it.
  const Wording& common_wording() const { return common_wording_; }

 private:
  struct Entry {
    std::string label;
    std::vector<HostPattern> hosts;  // empty: any
    PathPattern pattern;
    std::optional<MethodSet> methods;
    Policy policy;
    std::size_t upstream;
    std::string strip_prefix;
  };
  std::vector<Entry> entries_;
  bool any_hosts_ = false;  // some route has hosts
  Wording common_wording_;
};

}  // namespace once::gateway
