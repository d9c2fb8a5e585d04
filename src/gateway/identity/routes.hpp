// Which route a request takes: the first in the file whose hosts, path pattern and methods fit. Paths come in their
// normal form (core/path.hpp) and are compared byte for byte, segment by segment.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/settings.hpp"

namespace once::gateway {

// "/v1/*/items/{id}/**": `*` and `{name}` are one segment, `**` at the end is any rest, none included. A slash at the
// end does not count, neither in the pattern nor in the path: many backends serve both.
class PathPattern {
 public:
  explicit PathPattern(std::string_view pattern);
  // A normal path.
  bool matches(std::string_view path) const;
  // The same paths, whatever the names in braces.
  bool operator==(const PathPattern&) const = default;

 private:
  struct Segment {
    std::string literal;  // empty: any
    bool any = false;
    bool operator==(const Segment&) const = default;
  };
  std::vector<Segment> segments_;
  bool any_rest_ = false;
};

// "api.example.com", or "*.example.com" for every name that ends in .example.com. Ports do not count.
class HostPattern {
 public:
  explicit HostPattern(std::string_view pattern);

  // What of a Host is matched: in lower case, without the port and without a dot at its end. The result is in `host` or
  // in `scratch`.
  static std::string_view name_in(std::string_view host, std::string& scratch);
  // A name as name_in() gives it.
  bool matches(std::string_view name) const;
  // Whether it matches everything that the other one does.
  bool covers(const HostPattern& other) const;

 private:
  std::string name_;
  bool below_ = false;  // every name that ends in name_, which begins with a dot
};

// As metrics, the access log and operators know a route: its path, behind its hosts if it has any.
std::string route_label(const Route& route);

struct RoutedPolicy {
  const Policy* policy;           // null: no route fits, the request passes through
  std::size_t upstream;           // index into the upstreams
  std::size_t index;              // of the route in the file; as many as there are: none fits
  std::string_view route;         // its label
  std::string_view strip_prefix;  // of the path, before it goes to the backend
};

class Routes {
 public:
  // Upstream names have been checked; there is at least one upstream.
  Routes(const std::vector<Route>& routes, const std::vector<Upstream>& upstreams);

  // The path in its normal form; the host as the request has it, empty if it has none.
  RoutedPolicy find(Method method, std::string_view path, std::string_view host) const;
  // As find() answers when no route fits.
  RoutedPolicy none() const;
  // Of problems that come before a route is known, or without one: as on every route, where all have the error object.
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
