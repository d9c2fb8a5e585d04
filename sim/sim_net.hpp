// A network in virtual time. Connections carry bytes that arrive split, late or never; they are reset or cut anywhere,
// and readiness is reported in any order. SimNet is what a process sees of it, behind the same port as the kernel's
// (http::Net). Peer is an end that no process of ours holds: a client or a backend. Every call of a process can be made
// to fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/endpoint.hpp"
#include "http/loop.hpp"
#include "http/net.hpp"
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

enum class NetCall : std::uint8_t { accept, connect, receive, peek, send, add };
enum class NetFault : std::uint8_t {
  none,
  again,           // EAGAIN, though it need not be; an event follows
  interrupted,     // EINTR
  brief,           // one byte is moved, however many there are
  reset,           // the connection is gone
  no_descriptors,  // EMFILE; of add(): there is no room to watch another one
};
std::string_view name_of(NetCall call);
std::string_view name_of(NetFault fault);

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

// A client or a backend, as its story tells it.
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

// Readiness for one loop, edge-triggered: each time something happens to a descriptor it is reported once.
class SimPoller final : public http::Poller {
 public:
  explicit SimPoller(SimNet& net) : net_(net) {}
  ~SimPoller() override;

  bool add(int fd, void* tag) override;
  void remove(int fd) override;
  int wait(std::span<epoll_event> room, int milliseconds) override;
  void wake() override;
  void take_wake() override { woken_ = false; }

  void ready(int fd);
  bool has_ready() const { return woken_ || !ready_.empty(); }
  bool watches(int fd) const { return tags_.contains(fd); }

  std::function<void()> wants_turn;

 private:
  SimNet& net_;
  std::map<int, void*> tags_;
  std::vector<int> ready_;
  bool woken_ = false;
};

// What one process sees.
class SimNet final : public http::Net {
 public:
  explicit SimNet(Network& network) : network_(network) {}
  SimNet(const SimNet&) = delete;
  SimNet& operator=(const SimNet&) = delete;
  ~SimNet() override;

  // A listener for one loop. Several at one address share what comes.
  int listen(const http::Endpoint& at);

  // Looks on, and decides what fails: asked before each call.
  std::function<NetFault(NetCall)> faults;
  // Bytes that the process gave away or took, and its ends of connections, by the number of the connection.
  struct Tap {
    std::function<void(std::uint64_t link)> accepted;
    std::function<void(std::uint64_t link, std::string_view)> sent;
    std::function<void(std::uint64_t link, std::string_view)> received;
    std::function<void(std::uint64_t link)> received_end;
    std::function<void(std::uint64_t link)> closed;
  } tap;

  std::size_t most_descriptors = 1'000'000;
  std::size_t open_descriptors() const { return descriptors_.size(); }
  std::uint64_t calls() const { return calls_; }

  // The process is gone: its connections end, and every call fails from now on.
  void kill();
  bool dead() const { return dead_; }
  // Time goes on by itself for a process that is run to its end.
  void advance(Duration by) { ahead_ += by; }
  Duration ahead() const { return ahead_; }

  std::unique_ptr<http::Poller> poller() override;
  const std::vector<SimPoller*>& pollers() const { return pollers_; }
  std::chrono::nanoseconds now() const override;
  int accept(int listener, sockaddr_storage& peer) override;
  int connect(const http::Endpoint& endpoint) override;
  int take_error(int fd) override;
  ssize_t receive(int fd, std::span<char> room) override;
  ssize_t peek(int fd, std::span<char> room) override;
  ssize_t send(int fd, std::span<const iovec> pieces) override;
  void shut_down_writing(int fd) override;
  void reset_on_close(int fd) override;
  void close(int fd) override;
  int open_spare() override;

 private:
  friend class Network;
  friend class SimPoller;

  struct Waiting {
    std::shared_ptr<End> end;
    http::Endpoint from;
  };
  struct Descriptor {
    std::shared_ptr<End> end;      // of a connection
    std::vector<Waiting> backlog;  // of a listener
    std::string listens_at;
  };

  NetFault fault(NetCall call);
  int fail(int error);
  // Its event comes later, as if it had not been ready yet.
  void ready_later(int fd);
  void ready(int fd);
  std::uint32_t events(int fd) const;
  int put(Descriptor descriptor);
  End* end_of(int fd);
  ssize_t look(int fd, std::span<char> room, bool take, NetCall call);

  Network& network_;
  std::map<int, Descriptor> descriptors_;
  std::vector<SimPoller*> pollers_;
  int next_fd_ = 100'000;  // none that the kernel gave
  std::uint64_t calls_ = 0;
  bool dead_ = false;
  Duration ahead_{};
};

// Gives a loop its turns: when something is ready, when a timer is due.
class LoopDriver {
 public:
  LoopDriver(World& world, http::Loop& loop, SimPoller& poller);
  LoopDriver(const LoopDriver&) = delete;
  LoopDriver& operator=(const LoopDriver&) = delete;
  ~LoopDriver();

  // Called after each turn.
  std::function<void()> after_turn;
  bool stopped() const { return stopped_; }
  // It stands still, and then goes on.
  void pause(Duration length) { paused_until_ = std::max(paused_until_, world_.now() + length); }
  // From now on whoever owns the loop runs it.
  void let_go() { state_->let_go = true; }

 private:
  struct State {
    LoopDriver* driver = nullptr;
    bool let_go = false;
  };
  void ask_for_turn(Duration after);
  void turn();

  World& world_;
  http::Loop& loop_;
  SimPoller& poller_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::optional<Time> next_;
  std::uint64_t asked_ = 0;
  bool stopped_ = false;
  bool in_turn_ = false;
  Time paused_until_{};
};

}  // namespace once::sim
