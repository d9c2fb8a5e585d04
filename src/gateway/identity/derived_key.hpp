// A key for clients that send none, made from chosen parts of the request: a double click then is one operation.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "core/policy.hpp"
#include "http/head.hpp"

namespace once::gateway {

// 64 hex digits, the same for the same values; JSON values are compared as values, not as they are spelled. The error
// is a part that the request does not have, or has twice: nothing can be made from that, and leaving it out would make
// one operation of requests that are not the same.
std::expected<std::string, const KeySource*> derived_key(const KeyPolicy& policy, const http::RequestHead& head,
                                                         std::string_view body);

// As the configuration has it: header:X-Order-Id, json:/order/id.
std::string text_of(const KeySource& source);

}  // namespace once::gateway
