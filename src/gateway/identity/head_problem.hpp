// The problem for a request whose head cannot be parsed.
#pragma once

#include "core/problem.hpp"
#include "http/head.hpp"

namespace once::gateway {

Problem head_problem(http::HeadError error);

}  // namespace once::gateway
