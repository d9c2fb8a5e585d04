// The head of a request as it goes to the backend: the client's fields byte for byte, less those of the connection
// and those that only Once may write, with a plain Host, framed by us.
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
  std::string_view base_path;          // put before the target
  std::string_view authority;          // Host, if the client sent none
  std::string_view added_fields;       // "Name: value\r\n" each
  http::Framing framing;               // of the body as we send it
  std::string_view upgrade = {};       // protocols that the client may switch to; empty: none
  bool forward_expect = false;         // the body is sent only as the client sends it
  std::string_view strip_prefix = {};  // taken off the target first, if that begins with these segments
  std::string_view host = {};          // Host, whatever the client sent; empty: the client's
  const Origin* origin = nullptr;      // where the request came from; null: nothing is said of it
  ForwardedFields forwarded = ForwardedFields::off;
  std::string_view via = {};  // by which name it says that it came through here; empty: it says nothing
  bool drop_resume = false;   // fields that say where the client goes on: Once answers those itself
};

// What Max-Forwards says (RFC 9110 7.6.2): how many more times an OPTIONS may be passed on. nullopt: it does not say.
std::optional<std::uint64_t> hops_left(const http::RequestHead& head);

// Whether a Via says that the request came through the proxy of this name (RFC 9110 7.6.3).
bool came_through(const http::RequestHead& head, std::string_view name);

// What remains of a target without a prefix of whole segments; `target` itself if it has no such prefix. May be empty
// or begin with its query: a "/" belongs before it then.
std::string_view without_prefix(std::string_view target, std::string_view prefix);

// The path would not come out where its route leads: it is put behind `base_path` or loses `strip_prefix` byte by byte,
// and a backend resolves what is left. `normal` is its normal form.
bool leaves_prefix(std::string_view path, std::string_view normal, std::string_view strip_prefix,
                   std::string_view base_path);

// Replaces the content of `out`.
void write_forwarded_head(std::string& out, const http::RequestHead& head, const ForwardedHead& as);

}  // namespace once::gateway
