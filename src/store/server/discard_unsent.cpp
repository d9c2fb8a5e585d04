#include "store/server/discard_unsent.hpp"

#include <sys/socket.h>

namespace once::store {

void discard_unsent(int socket) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

}  // namespace once::store
