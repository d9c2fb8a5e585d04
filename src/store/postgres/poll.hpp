// Waits for a connection, with a deadline.
#pragma once

#include "store/postgres/connection.hpp"

namespace once::postgres {

struct Waited {
  short ready = 0;  // the events of poll(); 0: timed out, or woken
  bool woken = false;
};

Waited wait_for(int descriptor, short events, Wait wait);

}  // namespace once::postgres
