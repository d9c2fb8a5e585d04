// Ops from threads that wait for them. The lanes do the same for them as for the gateway's coroutines: what many
// threads ask at once goes to the store as one batch.
#pragma once

#include "store/lane.hpp"

namespace once::guard {

void run_blocking(Lanes& lanes, Op& op);

}  // namespace once::guard
