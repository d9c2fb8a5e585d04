// Derives a key from chosen parts of a request, for clients that send none: then a double click is one operation.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "core/policy.hpp"
#include "http/head.hpp"

namespace once::gateway {

// 64 hex digits, equal for equal values; JSON values are compared by value, not by spelling. The error is a part that
// the request lacks or has twice: leaving it out would give different requests the same key.
std::expected<std::string, const KeySource*> derived_key(const KeyPolicy& policy, const http::RequestHead& head,
                                                         std::string_view body);

// The source as written in the configuration: header:X-Order-Id, json:/order/id.
std::string text_of(const KeySource& source);

}  // namespace once::gateway
