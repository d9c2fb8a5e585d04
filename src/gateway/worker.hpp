// One thread of the gateway: its loop, its connections to every backend, its counters. Workers share nothing that is
// written but the store, the lists of waiters and executions, and the logs.
#pragma once

#include <atomic>
#include <latch>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "core/operation.hpp"
#include "gateway/access_log.hpp"
#include "gateway/connection/reply.hpp"
#include "gateway/exchange/exchange_ports.hpp"
#include "gateway/generation.hpp"
#include "gateway/limits/address_limit.hpp"
#include "gateway/limits/key_quota.hpp"
#include "gateway/limits/reader_memory.hpp"
#include "gateway/limits/told_outcomes.hpp"
#include "gateway/limits/usage.hpp"
#include "gateway/metrics.hpp"
#include "gateway/spool/spool.hpp"
#include "http/fault.hpp"
#include "http/kernel_net.hpp"
#include "http/loop.hpp"
#include "http/socket.hpp"
#include "store/executions.hpp"
#include "store/lane.hpp"
#include "store/waiters.hpp"

namespace once::gateway {

struct Drain {
  Duration limit{};         // for requests at work
  Duration idle_grace{};    // for connections that idle: one more request, answered as the last, may come until then
  Duration unread_grace{};  // for requests with a key that are still coming in: refused then, nothing was executed
  // Somebody else listens on the same sockets: what waits there is left to them.
  bool successor = false;
};

// What all workers share; made before them, outlives them.
struct GatewayShared {
  const OperationIds& ids;
  Lanes& store;
  Waiters& waiters;
  const Clock& clock;
  const Log& log;
  LineWriter& access;
  http::FaultListener& faults;
  std::string errors_base;
  std::string via = "once";  // the name of this process in Via
  http::Net& net = http::kernel_net();
  Random* random = nullptr;  // where all workers run on one thread; null: each has the system's
  std::atomic<std::size_t> connections = 0;
  std::atomic<std::size_t> half_closed = 0;  // and do not count as connections; see Worker::client_left()
  Usage usage{};
  Executions executions{};
  std::shared_ptr<QuotaTables> quotas = std::make_shared<QuotaTables>();  // the store knows them
  AddressTable addresses{};
  ReaderMemory readers{usage};
  ToldOutcomes told{usage};
  LiveStreams streams{usage};
  Spool* spool = nullptr;      // for bodies too large for memory; null: those are refused
  Offload* offload = nullptr;  // for what takes long on large bodies; null: the loop does it
};

enum class Over : std::uint8_t { plain, tls };

// Where a worker takes connections from, and what they speak.
struct Listening {
  int fd = -1;  // the worker closes it
  Over over = Over::plain;
};

// What a connection may have to make room of.
enum class Scarce : std::uint8_t {
  connections,
  body_memory,  // limits.max_body_memory
  spool,        // limits.max_spool
};

// A client's connection, as the worker needs to see it when it drains or is full.
class ServedConnection {
 public:
  // True: it was, and ends.
  virtual bool close_if_idle() = 0;
  // A request that is still coming in, and of which nothing was sent on, is refused: see Worker::refuses_unread().
  virtual void refuse_unread() = 0;
  // How long its client keeps it waiting in the midst of a message, beyond what a client of a decent speed would.
  virtual std::chrono::nanoseconds debt() const = 0;
  // It ends, in the midst of that message.
  virtual void displace() = 0;
  // How many connections there are from its address.
  virtual std::size_t neighbours() const = 0;
  virtual bool is_from(const http::PeerNetwork& network) const = 0;
  // Whether it holds some of it until its client has sent a request or read a response.
  virtual bool holds(Scarce what) const = 0;
  // Its client has left, or is taken to have: the descriptor is given back at once, and its request goes on.
  virtual void hang_up() = 0;

  ServedConnection* previous = nullptr;
  ServedConnection* next = nullptr;
  bool resting = false;      // in the list of those
  bool counted = true;       // as open: until it ends, has to make room for another one, or its client leaves
  bool half_closed = false;  // the client has closed its side, and may still read the response

 protected:
  ~ServedConnection() = default;
};

class Worker final {
 public:
  Worker(GatewayShared& shared, WorkerShare share, std::shared_ptr<Generation> generation);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  // Serves connections from these until drain(); runs on the worker's own thread.
  void run(const std::vector<Listening>& listening);
  // Without running the loop, for whoever does that in virtual time.
  void start(const std::vector<Listening>& listening);
  // From any thread: accept no more, close what idles, end when the last request has, or after the limit.
  void drain(const Drain& how);

  // From any thread: accept no more, close what idles and refuse what is still coming in, until resume() or drain().
  // Each counts down when it is done.
  void pause(const Drain& how, std::latch& done);
  void resume(std::latch& done);

  // From any thread: new requests are served by this generation. Counts down when that is so.
  void adopt(std::shared_ptr<Generation> generation, std::latch& adopted);

  http::Loop& loop() { return loop_; }
  Random& random() { return random_; }
  Metrics& metrics() { return metrics_; }
  AccessLog& access() { return access_; }
  // The time as a field Date has it; valid until the next call.
  std::string_view date() { return date_.at(shared_.clock.now()); }
  const Metrics& metrics() const { return metrics_; }
  // For one request at a time, on this worker's loop. Without memory there is always enough.
  ExchangePorts exchange_ports(ResponseMemory* memory);
  GatewayShared& shared() { return shared_; }
  // By which new requests are served.
  const GenerationUse& generation() const { return generation_; }
  // This request is the connection's last.
  bool draining() const { return draining_ || paused_; }
  // Connections that idle are closed, and no request begins any more but on one that was at work. From any thread.
  bool idle_closed() const { return idle_closed_.load(std::memory_order_acquire); }
  // Whoever sends a request slowly must not hold up the end, or the handover of the store, for as long as it likes.
  bool refuses_unread() const { return refuses_unread_; }
  // While it drains with its store at hand: a request that has arrived is served, though its connection seems idle.
  bool serves_arrived() const { return draining_ && !paused_; }
  void enter(ServedConnection& connection);
  void leave(ServedConnection& connection);
  // It has idled for a while: when there are as many connections as there may be, it is closed for a new one.
  void rests(ServedConnection& connection);
  void wakes(ServedConnection& connection);
  // A client that may have left while its keyed request goes on: it has closed its side. Its place is free for another
  // connection, and it keeps its descriptor, for the response, while there are enough.
  void client_left(ServedConnection& connection);
  // It has no descriptor any more.
  void hung_up(ServedConnection& connection);
  // There is none left for somebody at an address with so many connections: a client goes that sends its request or
  // reads its response slowly, and holds some of it meanwhile.
  bool displace_slow(std::size_t neighbours, Scarce what, const http::PeerNetwork* of = nullptr);
  // Something that goes on when its request is over; a drain waits for it.
  void hold() { ++held_; }
  void let_go();
  std::size_t held() const { return held_; }
  bool cut_off() const { return cut_off_; }  // connections that were still at work when the drain limit came

 private:
  struct DrainWork : Work {
    Worker* worker = nullptr;
    Drain how;
  };
  struct AdoptWork : Work {
    Worker* worker = nullptr;
    std::shared_ptr<Generation> generation;
    std::latch* adopted = nullptr;
  };
  struct PauseWork : Work {
    Worker* worker = nullptr;
    Drain how;
    std::latch* done = nullptr;
  };
  struct DrainTimer : Timer {
    Worker* worker = nullptr;
  };

  Task<void> accept_all(http::Socket& listener, Over over);
  GenerationUse serve_by(std::shared_ptr<Generation> generation);
  void start_draining(const Drain& how);
  void start_pause(const Drain& how);
  void end_pause();
  void close_idle();
  void close_idle_after(Duration grace);
  void refuse_unread();
  void take(const http::Socket::Accepted& accepted, Over over);
  // Of a connection that begins with a header of the PROXY protocol.
  Task<void> introduce(http::Socket::Accepted accepted, Over over);
  Task<bool> read_introduction(http::Socket& socket, sockaddr_storage& peer, Duration limit);
  void note_refusal(ProxyRefusal why, const sockaddr_storage& peer, std::string_view detail);
  void admit(const http::Socket::Accepted& accepted, Over over);
  Task<void> wait_for_descriptors(int error);
  bool make_room(const AddressTable::Share& newcomer);
  bool close_longest_resting();
  bool hang_up_longest_half_closed();
  // Its place is another one's from now on.
  void count_out(ServedConnection& connection);
  Task<void> refuse(int fd, Over over, Problem answer);
  void stop_if_drained();

  GatewayShared& shared_;
  WorkerShare share_;
  http::Loop loop_;
  SystemRandom system_random_;
  Random& random_;
  Metrics metrics_;
  AccessLog access_;
  DateText date_;
  GenerationUse generation_;
  std::vector<std::unique_ptr<http::Socket>> listeners_;
  std::size_t accepting_ = 0;  // of them
  bool draining_ = false;
  bool paused_ = false;
  bool successor_ = false;
  bool refuses_unread_ = false;
  std::atomic<bool> idle_closed_ = false;
  bool cut_off_ = false;
  AdoptWork adopt_work_;
  DrainWork drain_work_;
  PauseWork pause_work_;
  PauseWork resume_work_;
  DrainTimer drain_timer_;
  DrainTimer idle_timer_;
  DrainTimer unread_timer_;
  DrainTimer settle_timer_;
  std::size_t held_ = 0;
  std::size_t lingering_ = 0;  // connections that were refused
  std::vector<http::Socket*> introducing_;
  struct ListHead final : ServedConnection {
    bool close_if_idle() override { return false; }
    void refuse_unread() override {}
    std::chrono::nanoseconds debt() const override { return {}; }
    void displace() override {}
    std::size_t neighbours() const override { return 0; }
    bool is_from(const http::PeerNetwork& /*network*/) const override { return false; }
    bool holds(Scarce /*what*/) const override { return false; }
    void hang_up() override {}
  };
  ListHead open_;
  ListHead resting_;      // those that rest, the longest first
  ListHead half_closed_;  // the longest first
  ListHead hung_up_;
};

}  // namespace once::gateway
