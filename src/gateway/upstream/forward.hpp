// Writes the head of a request as it goes to the backend: the client's fields byte for byte, without hop-by-hop
// fields and those that only Once may set, with a plain Host and Once's own framing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/identity/origin.hpp"
#include "gateway/settings.hpp"
#include "http/head.hpp"

namespace once::gateway {

struct ForwardedHead {
  std::string_view base_path;  // put before the target
  std::string_view authority;  // the Host if the client sent none
  FieldsView added_fields;
  http::Framing framing;               // of the body as it is sent
  std::string_view upgrade = {};       // protocols that the client may upgrade to; empty: none
  bool forward_expect = false;         // forward Expect, because the body is only sent as the client sends it
  std::string_view strip_prefix = {};  // removed from the target first, if the target begins with these segments
  std::string_view host = {};          // overrides the client's Host unless empty
  const Origin* origin = nullptr;      // the origin of the request; null: no forwarding fields are added
  ForwardedFields forwarded = ForwardedFields::off;
  std::string_view via = {};  // this gateway's name in Via; empty: no Via is added
  bool drop_resume = false;   // drop the fields that ask to resume a stream: Once answers those itself
};

// Max-Forwards (RFC 9110 7.6.2): how many more times an OPTIONS may be forwarded. nullopt: not limited.
std::optional<std::uint64_t> hops_left(const http::RequestHead& head);

// Whether a Via field shows that the request already passed the proxy of this name (RFC 9110 7.6.3).
bool came_through(const http::RequestHead& head, std::string_view name);

// The target without a prefix of whole segments; `target` itself if it has no such prefix. The result may be empty or
// begin with the query; prepend "/" then.
std::string_view without_prefix(std::string_view target, std::string_view prefix);

// Whether the path could leave its route once it is appended to `base_path` or loses `strip_prefix` byte by byte,
// because the backend resolves dot segments itself. `normal` is its normal form.
bool leaves_prefix(std::string_view path, std::string_view normal, std::string_view strip_prefix,
                   std::string_view base_path);

// Replaces the content of `out`.
void write_forwarded_head(std::string& out, const http::RequestHead& head, const ForwardedHead& as);

}  // namespace once::gateway
