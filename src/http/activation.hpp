// What a service manager gives to a process and wants to hear from it, in the protocol of systemd: sockets that listen
// already (LISTEN_FDS), and a socket to say "ready" to (NOTIFY_SOCKET).
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

// The first descriptor that is passed.
inline constexpr int first_inherited = 3;

// `count` and `names` as in LISTEN_FDS and LISTEN_FDNAMES. Each must listen; they are made non-blocking and are not
// passed on to other programs.
Result<std::vector<InheritedSocket>> inherited_sockets(std::string_view count, std::string_view names);

// Hears "READY=1" and its like on the socket that NOTIFY_SOCKET names; empty: nobody wants to hear. A failure is not
// reported: there is no one to tell.
class ServiceManager {
 public:
  explicit ServiceManager(std::string_view socket);
  void notify(std::string_view state) const;

 private:
  std::string socket_;
  Descriptor sender_;  // kept, so that signs of life are sent even when no descriptor is left
};

// Two ends for two processes to talk over; closed in every program that is started, unless it is given one.
Result<std::pair<Descriptor, Descriptor>> channel_pair();

}  // namespace once::http
