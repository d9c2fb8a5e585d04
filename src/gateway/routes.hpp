// Which route a request takes: the first in the file whose path pattern and methods fit. Paths come in their normal
// form (core/path.hpp) and are compared byte for byte, segment by segment.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/settings.hpp"

namespace once {

// "/v1/*/items/{id}/**": `*` and `{name}` are one segment, `**` at the end is any rest, none included.
class PathPattern {
 public:
  explicit PathPattern(std::string_view pattern);
  // A normal path.
  bool matches(std::string_view path) const;

 private:
  struct Segment {
    std::string literal;
    bool any = false;
  };
  std::vector<Segment> segments_;
  bool any_rest_ = false;
};

struct RoutedPolicy {
  const Policy* policy;           // null: no route fits, the request passes through
  std::size_t upstream;           // index into the upstreams
  std::size_t index;              // of the route in the file; as many as there are: none fits
  std::string_view route;         // its pattern
  std::string_view strip_prefix;  // of the path, before it goes to the backend
};

class Routes {
 public:
  // Upstream names have been checked; there is at least one upstream.
  Routes(const std::vector<Route>& routes, const std::vector<Upstream>& upstreams);

  // The path in its normal form.
  RoutedPolicy find(Method method, std::string_view path) const;
  // Of problems that come before a route is known, or without one: as on every route, where all have the error object.
  const Wording& common_wording() const { return common_wording_; }

 private:
  struct Entry {
    std::string path;
    PathPattern pattern;
    std::optional<MethodSet> methods;
    Policy policy;
    std::size_t upstream;
    std::string strip_prefix;
  };
  std::vector<Entry> entries_;
  Wording common_wording_;
};

}  // namespace once
