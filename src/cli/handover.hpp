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

// Whether a service manager holds the sockets as well, so that what waits in them is served by whom it starts next.
enum class SocketsKept : std::uint8_t { no, yes };

// The old process's side.
class Successor {
 public:
  // Starts `command` with these sockets.
  static Result<Successor> start(const std::vector<std::string>& command,
                                 const std::vector<http::InheritedSocket>& sockets, SocketsKept kept);

  int pid() const { return pid_; }
  // To wait for: readable when there is a message, or the successor has ended.
  int descriptor() const { return channel_.get(); }
  bool speaks() const;
  // `none`: it has ended.
  Message receive() const;
  void say_yours() const;
  // False: it has ended, whatever it said before.
  bool runs() const;
  // Ends it, if it has not ended by itself. Nothing of it is left when this returns.
  void end() const;

 private:
  Successor(Descriptor channel, int pid) : channel_(std::move(channel)), pid_(pid) {}

  Descriptor channel_;
  int pid_;
};

// The successor's side; empty in a process that replaces nobody.
class Predecessor {
 public:
  Predecessor() = default;
  explicit Predecessor(int channel) : channel_(channel) {}

  bool exists() const { return channel_.open(); }

  // Returns when the store may be opened, as soon as the old process lets go of it.
  void say_checked() const;
  void say_ready();

 private:
  Descriptor channel_;
};

// What the environment of this process says of where it comes from.
struct Origin {
  std::vector<http::InheritedSocket> sockets;
  SocketsKept kept = SocketsKept::no;
  Predecessor predecessor;
  std::string notify_socket;             // empty: no service manager wants to hear
  std::chrono::microseconds watchdog{};  // without a sign of life for so long it ends the process; 0: it does not
};
Result<Origin> origin_of_process();

// This process's own command line, with a path of the program that stays good when the file is replaced.
std::vector<std::string> own_command();

}  // namespace once::cli
