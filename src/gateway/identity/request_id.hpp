// The id of a request in logs and replies: the client's own X-Request-Id, or a new one.
#pragma once

#include <string>

#include "base/random.hpp"
#include "http/head.hpp"

namespace once::gateway {

void append_id_of(const http::RequestHead& head, Random& random, std::string& out);

}  // namespace once::gateway
