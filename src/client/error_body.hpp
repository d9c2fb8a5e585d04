// Extracts the members of an error's JSON body that decide about a retry, and its text for people. Anything that cannot
// be parsed is ignored.
#pragma once

#include <string>
#include <string_view>

#include "client/policy.hpp"

namespace once::client {

struct ErrorBody {
  std::string code;  // "code" of a problem document (RFC 9457), else that of its "error" object
  Reply::Says says = Reply::Says::nothing;
  std::string detail;  // "detail" of a problem document, else "message" of its "error" object
};

ErrorBody read_error_body(std::string_view body);

}  // namespace once::client
