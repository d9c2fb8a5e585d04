// The label of a record: a description of its requests for people. It contains the pattern of the route, and method,
// path without query and request id of the latest attempt. Stores keep it as one text of at most 255 bytes and never
// parse it.
//
//   ROUTE [ TAB METHOD ID SAME PATH ]
//
// The part after the tab is compact, because every record has one:
//   METHOD  a letter (G GET, H HEAD, P POST, U PUT, A PATCH, D DELETE, Q QUERY), or X, the method and a space
//   ID      h or u, and 22 characters of base64url: 32 hex digits, or a UUID in lower case; or t, the id and a space
//   SAME    the number of bytes that the path shares with ROUTE, from its first slash on: '!' for 0 … '~' for 93
//   PATH    the rest of the path, as it was sent
// A longer label is cut at the end of the path. A label without a tab is a route, or the scope of a claim.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/layers.hpp"

namespace once::core {

inline constexpr std::size_t longest_route_label = 255;

// Bytes other than visible ASCII become '?', ids longer than 64 bytes are cut. Replaces the content of `out`.
struct LabelledRequest {
  std::string_view route;
  std::string_view method;
  std::string_view path;
  std::string_view request_id;
};
void write_route_label(std::string& out, const LabelledRequest& request);

// The parts before and after the tab, for a store that keeps them apart. A label without a tab is all route.
struct LabelParts {
  std::string_view route;
  std::string_view request;
};
LabelParts parts_of(std::string_view label);

struct RequestDetails {
  std::string method;
  std::string path;
  std::string request_id;

  bool operator==(const RequestDetails&) const = default;
};
// nullopt: the label is only a route or a scope. Safe on any bytes.
std::optional<RequestDetails> details_in(std::string_view label);
std::string_view route_in(std::string_view label);

}  // namespace once::core
