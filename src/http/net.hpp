// The network as a port: only the system calls that a loop and its sockets make. KernelNet (kernel_net.hpp) is the
// real one; the simulator has a network in virtual time (sim/sim_net.hpp). A call has the semantics of the system
// call of the same name on a non-blocking descriptor: -1 and errno when it fails.
//
// Opening a listener is not part of it: that is done once, before a loop runs (endpoint.hpp).
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.hpp"
#include "http/endpoint.hpp"

namespace once::http {

// Readiness for one loop, as edge-triggered epoll reports it.
class Poller {
 public:
  virtual ~Poller() = default;

  // Events are reported with this tag: readable, writable and end of stream. Fails if the system cannot watch another
  // descriptor.
  virtual bool add(int fd, void* tag) = 0;
  virtual void remove(int fd) = 0;

  // Waits for events, at most this many milliseconds; -1: no limit. An event with a null tag is a wake(): call
  // take_wake().
  virtual int wait(std::span<epoll_event> room, int milliseconds) = 0;
  // Thread-safe: ends the current wait, or the next one.
  virtual void wake() = 0;
  virtual void take_wake() = 0;
};

class Net {
 public:
  virtual ~Net() = default;

  virtual std::unique_ptr<Poller> poller() = 0;
  // The monotonic time of loops' timers.
  virtual std::chrono::nanoseconds now() const = 0;

  // An accepted connection, with TCP_NODELAY and a limit on unsent bytes in the kernel.
  virtual int accept(int listener, sockaddr_storage& peer) = 0;
  // A new socket that is connecting, or connected.
  virtual int connect(const Endpoint& endpoint) = 0;
  // SO_ERROR: the result of connect(). 0: it is connected.
  virtual int take_error(int fd) = 0;

  virtual ssize_t receive(int fd, std::span<char> room) = 0;
  // The same with MSG_PEEK: nothing is taken.
  virtual ssize_t peek(int fd, std::span<char> room) = 0;
  // Never raises SIGPIPE.
  virtual ssize_t send(int fd, std::span<const iovec> pieces) = 0;

  virtual void shut_down_writing(int fd) = 0;
  // SO_LINGER with a time of zero: the peer sees a reset when the descriptor is closed.
  virtual void reset_on_close(int fd) = 0;
  // Undoes reset_on_close().
  virtual void end_on_close(int fd) = 0;
  virtual void close(int fd) = 0;

  // A spare descriptor: closing it makes one available when the process is out of descriptors.
  virtual int open_spare() = 0;
};

// Net::connect() with an error as text. Retryable: the process or the system is out of descriptors, which says nothing
// about the server.
Result<int> start_connect(Net& net, const Endpoint& endpoint);

}  // namespace once::http
