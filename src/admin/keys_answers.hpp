// Responses of /v1/keys, for one key and for many, and refusals of the admin interface.
#pragma once

#include <string>
#include <string_view>

#include "admin/keys_json.hpp"
#include "base/error.hpp"
#include "core/problem.hpp"
#include "http/service.hpp"
#include "store/store.hpp"

namespace once::admin {

http::ServiceResponse key_answer(const Problem& problem);
http::ServiceResponse key_answer(std::string json);
http::ServiceResponse refused_key(ProblemKind kind, std::string detail);
// `allow` is the value of the Allow field.
http::ServiceResponse wrong_method(std::string_view allow, std::string detail);

// The part after the question mark.
std::string_view query_of(const http::RequestHead& head);

// The problem for a failed search.
Problem store_problem(const Error& error);

// The result of an action: for the audit log, and for the client if it was not done.
std::string_view result_of(Effect effect, OpStatus status);
Problem problem_of(Effect effect, const Op& op);

}  // namespace once::admin
