#pragma once

#include "base/layers.hpp"

namespace once::store {

// What the system has not sent yet is thrown away when the socket closes. Otherwise it goes on trying, and a claim
// could reach the server long after whoever made it has given it up.
void discard_unsent(int socket);

}  // namespace once::store
