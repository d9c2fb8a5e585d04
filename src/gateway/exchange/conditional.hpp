// Conditional requests for backends that have none, as far as heads say: which responses get a tag, which writes are
// checked, and what is asked of them. conditional_write.hpp has the check itself.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/etag.hpp"
#include "core/policy.hpp"
#include "http/head.hpp"

namespace once::gateway {

// A header that makes another method of the request at backends that heed it.
bool overrides_method(std::string_view name);

// Whether the response to this GET may be given an ETag.
bool tags_response(const Policy& policy, const http::RequestHead& head);
// Whether writes with this method take turns at their resource and are checked, conditions or none.
inline bool takes_turns(const Policy& policy, Method method) {
  return policy.conditional.if_match != IfMatch::off && policy.mode == Mode::enforce &&
         (method == Method::put || method == Method::patch || method == Method::delete_);
}

// What a GET that may be tagged asks for.
struct Tagging {
  TagList none_match;
};

// A response that is larger, or whose end takes longer to come after its head, has no tag.
inline constexpr std::size_t most_tagged_body = std::size_t{1} << 20U;
inline constexpr Duration longest_tagged_wait = std::chrono::seconds(2);

// Takes out of the request what would make more than one form of the representation.
Tagging begin_tagging(http::RequestHead& head);

// Whether this response is to be held until its tag is known.
bool may_be_tagged(const http::ResponseHead& head);
std::string etag_of(const http::ResponseHead& head, std::string_view body);
// Says something of the body that a 304 does not have.
bool describes_body(std::string_view name);

// A GET of what this write is about, as the one who writes would see it.
http::RequestHead as_get(const http::RequestHead& write, const Policy& policy);

// Nothing if a condition cannot be understood.
std::optional<Precondition> read_precondition(const http::RequestHead& head);
// The fields of a write less its conditions.
void strip_conditions(http::RequestHead& head);

}  // namespace once::gateway
