// After a 101: relays bytes in both directions until both sides have ended, or both are idle for too long.
#pragma once

#include <string_view>

#include "base/task.hpp"
#include "http/buffer.hpp"
#include "http/socket.hpp"

namespace once::gateway {

// `from_client` and `from_backend` hold bytes that were already read.
Task<void> tunnel(http::Socket& client, http::Buffer& from_client, http::Socket& backend, http::Buffer& from_backend,
                  Duration idle_limit);

}  // namespace once::gateway
