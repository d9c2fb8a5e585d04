// Connections in virtual time, and their two ends. Bytes arrive split, late or never; a connection can be reset or cut
// anywhere. A Peer is an end outside the simulated processes: a client or a backend. sim_net.hpp has the view of a
// process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/endpoint.hpp"
#include "sim/world.hpp"

namespace once::sim {

// The behaviour of connections. Chances are percentages.
struct Weather {
  Duration delay{};                              // of bytes in flight, at most
  unsigned splits = 0;                           // bytes that are sent together arrive in parts
  std::size_t capacity = std::size_t{1} << 20U;  // of bytes in flight or unread, in one direction
  unsigned cuts = 0;                             // connections that break …
  std::size_t cut_within = 2000;                 // … before this many bytes have passed
  unsigned refuses = 0;                          // of connects
  unsigned stalls = 0;                           // connects that never complete
  unsigned few_events = 0;                       // rounds that report only one event, whatever is ready
};

class Network;
class SimNet;
class Peer;

// One end of a connection. The network keeps it until it is closed and nothing is in flight to it.
struct End {
  std::uint64_t link = 0;  // the number of the connection, shared by both ends
  SimNet* host = nullptr;  // the owner of the descriptor …
  int fd = -1;
  Peer* peer = nullptr;  // … or the client or backend
  std::weak_ptr<End> other;
  std::string inbox;       // arrived and unread
  std::size_t coming = 0;  // bytes in flight to this end
  Time last_arrival{};
  int error = 0;
  bool connected = false;
  bool stalled = false;  // a connect that never completes
  bool ended = false;    // the other end sends no more
  bool broken = false;   // reset
  bool shut = false;     // this end sends no more
  bool closed = false;
  bool resets = false;           // when it is closed
  bool wants_room = false;       // a write found no space
  std::size_t breaks_after = 0;  // after this many more bytes to this end; 0: never
  bool breaks_clean = false;     // as if the sender had closed
  bool cut = false;              // it was broken like that
};

// A scripted client or backend.
class Peer {
 public:
  Peer(Network& network, std::shared_ptr<End> end);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();

  // Set by the owner before anything can happen. May destroy the peer as their last action.
  std::function<void(std::string_view)> on_bytes;
  std::function<void()> on_end;    // the other side sends no more
  std::function<void()> on_reset;  // the other side is gone

  // Sends as much as there is space for, the rest later.
  void send(std::string_view bytes);
  // Sends the queued bytes, then no more.
  void end();
  void close();
  void reset();
  // Stops or resumes reading: the other side can send only as much as the connection holds.
  void set_reading(bool reading);
  bool open() const { return !end_->closed && !end_->broken; }
  std::uint64_t link() const { return end_->link; }
  // The end was caused by a proxy in between, not by the other side.
  bool cut_off() const { return end_->cut; }

 private:
  friend class Network;
  void push();
  void pull();

  Network& network_;
  std::shared_ptr<End> end_;
  std::string outbox_;
  bool reading_ = true;
  bool ends_ = false;
  bool end_reported_ = false;
};

class Network {
 public:
  Network(World& world, const Weather& weather) : world_(world), weather_(weather) {}
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  World& world() { return world_; }
  Weather& weather() { return weather_; }

  static http::Endpoint address(std::string_view ip, std::uint16_t port);

  // Connections to this address are passed to `accepted` from now on; null: refused again.
  void serve(const http::Endpoint& at, std::function<void(std::unique_ptr<Peer>)> accepted);
  // A connecting client; its bytes wait until it is connected. Null: the connection was refused.
  std::unique_ptr<Peer> connect(const http::Endpoint& to, const http::Endpoint& from);

  // Both ends; the first one is the client's.
  std::pair<std::shared_ptr<End>, std::shared_ptr<End>> pair();

  // Sends as many bytes as there is space for.
  std::size_t send(End& from, std::string_view bytes);
  std::size_t room(const End& from) const;
  void shut(End& from);
  void close(End& from);
  // Breaks both ends at once, as a proxy in between would.
  void break_off(End& from);
  void notify(End& end);
  // Bytes were read: there may be space again.
  void read_from(End& reader);

 private:
  friend class SimNet;

  void deliver_later(std::shared_ptr<End> to, std::function<void(End&)> what);
  void arrive(End& to, const std::string& bytes);
  void arrive_reset(End& to);
  Duration some_delay();

  World& world_;
  Weather weather_;
  std::map<std::string, std::function<void(std::unique_ptr<Peer>)>> servers_;
  std::map<std::string, std::pair<SimNet*, std::vector<int>>> listeners_;
  std::map<const End*, std::shared_ptr<End>> open_;
  std::uint64_t connected_ = 0;
  std::uint64_t links_ = 0;
};

}  // namespace once::sim
