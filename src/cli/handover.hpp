// A restart without dropped connections: the process starts its own successor and passes it the listening sockets.
// Connections that are not accepted yet wait in the socket.
//
// They talk over a pair of sockets, one byte per message:
//   successor -> checked   its settings are valid; it is about to open the store
//   old       -> yours     the store may be opened: it is shared, or closed here
//   successor -> ready     it serves
// A successor that fails before it is ready, or takes too long, is ended, and the old process keeps serving. If the old
// process dies, the successor continues: the end of the channel counts as `yours`.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "http/activation.hpp"

namespace once::cli {

enum class Message : char { checked = 'c', yours = 'y', ready = 'r', none = '\0' };

// Whether a service manager also holds the sockets, so that connections waiting in them are served by the process that
// it starts next.
enum class SocketsKept : std::uint8_t { no, yes };

// The old process's side.
class Successor {
 public:
  // Starts `command` with these sockets.
  static Result<Successor> start(const std::vector<std::string>& command,
                                 const std::vector<http::InheritedSocket>& sockets, SocketsKept kept);

  int pid() const { return pid_; }
  // Readable when there is a message, or the successor has ended; for poll().
  int descriptor() const { return channel_.get(); }
  bool speaks() const;
  // `none`: the successor has ended.
  Message receive() const;
  void send_yours() const;
  // Whether the successor is still running, whatever messages it has sent.
  bool runs() const;
  // Kills it if it has not ended by itself. Returns when the process no longer exists.
  void end() const;

 private:
  Successor(Descriptor channel, int pid) : channel_(std::move(channel)), pid_(pid) {}

  Descriptor channel_;
  int pid_;
};

// The successor's side; empty in a process that replaces no other.
class Predecessor {
 public:
  Predecessor() = default;
  explicit Predecessor(int channel) : channel_(channel) {}

  bool exists() const { return channel_.open(); }

  // Returns when the store may be opened: it is shared, or the old process has closed it or has ended.
  void send_checked() const;
  void send_ready();

 private:
  Descriptor channel_;
};

// What the environment says about the origin of this process.
struct Origin {
  std::vector<http::InheritedSocket> sockets;
  SocketsKept kept = SocketsKept::no;
  Predecessor predecessor;
  std::string notify_socket;  // empty: no service manager expects notifications
  // the service manager ends the process after this time without a ping; 0: never
  std::chrono::microseconds watchdog{};
};
Result<Origin> origin_of_process();

// The command line of this process, with a program path that stays valid when the file is replaced.
std::vector<std::string> own_command();

}  // namespace once::cli
