#pragma once

#include "base/layers.hpp"

namespace once::store {

// Discards unsent bytes when the socket closes. Otherwise the system keeps sending them, and a claim could reach the
// server long after its owner has given it up.
void discard_unsent(int socket);

}  // namespace once::store
