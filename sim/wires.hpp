// Connections in virtual time, and their two ends. Bytes arrive split, late or never; a connection can be reset or cut
// anywhere. A Peer is an end outside of our processes: a client or a backend. sim_net.hpp has the view of a process.
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

// How connections behave. Chances are percent.
struct Weather {
  Duration delay{};                              // of bytes on their way, at most
  unsigned splits = 0;                           // what is sent together arrives in parts
  std::size_t capacity = std::size_t{1} << 20U;  // bytes on their way or unread, in one direction
  unsigned cuts = 0;                             // connections that break by themselves …
  std::size_t cut_within = 2000;                 // … before so many bytes have passed
  unsigned refuses = 0;                          // connects
  unsigned stalls = 0;                           // connects that never end
  unsigned few_events = 0;                       // turns that hear of one event only, whatever is ready
};

class Network;
class SimNet;
class Peer;

// One end of a connection. The network keeps it until it is closed and nothing is on its way to it.
struct End {
  std::uint64_t link = 0;  // both ends of a connection have the same number
  SimNet* host = nullptr;  // whose descriptor it is …
  int fd = -1;
  Peer* peer = nullptr;  // … or that of a client or backend
  std::weak_ptr<End> other;
  std::string inbox;       // arrived, unread
  std::size_t coming = 0;  // bytes on their way here
  Time last_arrival{};
  int error = 0;
  bool connected = false;
  bool stalled = false;  // a connect that never ends
  bool ended = false;    // the other end sends no more
  bool broken = false;   // reset
  bool shut = false;     // this end sends no more
  bool closed = false;
  bool resets = false;           // when it is closed
  bool wants_room = false;       // a write found none
  std::size_t breaks_after = 0;  // so many bytes more towards this end; 0: it holds
  bool breaks_clean = false;     // as if the sender had closed
  bool cut = false;              // it did
};

// A scripted client or backend.
class Peer {
 public:
  Peer(Network& network, std::shared_ptr<End> end);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();

  // Set by the owner before anything can happen. May destroy the peer, as the last thing they do.
  std::function<void(std::string_view)> on_bytes;
  std::function<void()> on_end;    // the other side sends no more
  std::function<void()> on_reset;  // or is gone

  // Goes out as far as there is room, the rest later.
  void send(std::string_view bytes);
  // Sends no more, after what is waiting to go out.
  void end();
  void close();
  void reset();
  // Bytes stay where they are until it reads again: the other side cannot send more than the connection holds.
  void set_reading(bool reading);
  bool open() const { return !end_->closed && !end_->broken; }
  std::uint64_t link() const { return end_->link; }
  // The end that it was told of is not the other side's: somebody in between has closed.
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
  bool told_end_ = false;
};

class Network {
 public:
  Network(World& world, const Weather& weather) : world_(world), weather_(weather) {}
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  World& world() { return world_; }
  Weather& weather() { return weather_; }

  static http::Endpoint address(std::string_view ip, std::uint16_t port);

  // Whoever connects to this address from now on is handed over here; null: refused again.
  void serve(const http::Endpoint& at, std::function<void(std::unique_ptr<Peer>)> accepted);
  // A client, connecting; what it sends waits until it is connected. Null: nobody listens there.
  std::unique_ptr<Peer> connect(const http::Endpoint& to, const http::Endpoint& from);

  // Both ends, the first one for whoever connects.
  std::pair<std::shared_ptr<End>, std::shared_ptr<End>> pair();

  // Of an end. As much as there is room for is taken.
  std::size_t send(End& from, std::string_view bytes);
  std::size_t room(const End& from) const;
  void shut(End& from);
  void close(End& from);
  // Both ends at once, as somebody in between does it.
  void break_off(End& from);
  void notify(End& end);
  // Bytes were read: there may be room again.
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
