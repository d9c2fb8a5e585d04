// Conditional requests for backends without ETags: the decisions that need only heads, such as which responses get a
// tag, which writes are checked, and which GET checks them. The check itself is conditional_write.hpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/etag.hpp"
#include "core/policy.hpp"
#include "http/head.hpp"

namespace once::gateway {

// Whether this header overrides the method at backends that honour it.
bool overrides_method(std::string_view name);

// Whether the response to this GET may be given an ETag.
bool tags_response(const Policy& policy, const http::RequestHead& head);
// Whether writes with this method are serialised per resource and checked, even those without conditions.
inline bool takes_turns(const Policy& policy, Method method) {
  return policy.conditional.if_match != IfMatch::off && policy.mode == Mode::enforce &&
         (method == Method::put || method == Method::patch || method == Method::delete_);
}

// The tags of a GET whose response may be tagged.
struct Tagging {
  TagList none_match;
};

// A response that is larger, or whose end takes longer to come after its head, has no tag.
inline constexpr std::size_t most_tagged_body = std::size_t{1} << 20U;
inline constexpr Duration longest_tagged_wait = std::chrono::seconds(2);

// Takes the conditions of If-None-Match, and removes Accept-Encoding, so that the representation has one form, and an
// If-Modified-Since that If-None-Match overrides.
Tagging begin_tagging(http::RequestHead& head);

// Whether this response is to be held until its tag is known.
bool may_be_tagged(const http::ResponseHead& head);
std::string etag_of(const http::ResponseHead& head, std::string_view body);
// Whether this field describes a body, which a 304 does not have.
bool describes_body(std::string_view name);

// A GET of the resource that `write` changes, with the caller's own view of it.
http::RequestHead as_get(const http::RequestHead& write, const Policy& policy);

// nullopt if a condition cannot be parsed.
std::optional<Precondition> read_precondition(const http::RequestHead& head);
// Removes the conditions from the fields of a write.
void strip_conditions(http::RequestHead& head);

}  // namespace once::gateway
