// The systemd protocol between a service manager and a process: inherited listening sockets (LISTEN_FDS), and
// notifications such as READY=1 (NOTIFY_SOCKET).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "base/error.hpp"

namespace once::http {

struct InheritedSocket {
  std::string name;  // FileDescriptorName= of the socket unit; empty: it has none
  int fd = -1;
};

// The number of the first inherited descriptor.
inline constexpr int first_inherited = 3;

// `count` and `names` are the values of LISTEN_FDS and LISTEN_FDNAMES. Each descriptor must be a listening socket; it
// is made non-blocking and close-on-exec.
Result<std::vector<InheritedSocket>> inherited_sockets(std::string_view count, std::string_view names);

// Sends "READY=1" and the like to the socket that NOTIFY_SOCKET names. Empty: notifications are off. Failures are
// ignored, because there is nothing to do about them.
class ServiceManager {
 public:
  explicit ServiceManager(std::string_view socket);
  void notify(std::string_view state) const;

 private:
  std::string socket_;
  Descriptor sender_;  // kept open, so that watchdog pings work when the process is out of descriptors
};

// A socket pair for two processes. Both ends are close-on-exec.
Result<std::pair<Descriptor, Descriptor>> channel_pair();

}  // namespace once::http
