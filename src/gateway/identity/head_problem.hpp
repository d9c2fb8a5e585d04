// What a request is answered with whose head cannot be read.
#pragma once

#include "core/problem.hpp"
#include "http/head.hpp"

namespace once::gateway {

Problem head_problem(http::HeadError error);

}  // namespace once::gateway
