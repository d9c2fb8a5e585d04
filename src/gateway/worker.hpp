// One thread of the gateway: its loop, its connections to every backend, its counters. Workers share no mutable state
// except the store, the lists of waiters and executions, and the logs.
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
#include "gateway/limits/shared_outcomes.hpp"
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
  Duration limit{};       // for requests in progress
  Duration idle_grace{};  // how long idle connections stay open for one last request
  // how long keyed requests may still be received; then they are refused, nothing was executed
  Duration unread_grace{};
  // Another process listens on the same sockets: leave connections that wait there to it.
  bool successor = false;
};

// What all workers share. Created before them, destroyed after them.
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
  Random* random = nullptr;  // for workers that all run on one thread; null: the system's
  std::atomic<std::size_t> connections = 0;
  std::atomic<std::size_t> half_closed = 0;  // not counted as connections; see Worker::client_left()
  Usage usage{};
  Executions executions{};
  std::shared_ptr<QuotaTables> quotas = std::make_shared<QuotaTables>();  // shared with the store's eviction callback
  AddressTable addresses{};
  ReaderMemory readers{usage};
  SharedOutcomes outcomes{usage};
  LiveStreams streams{usage};
  Spool* spool = nullptr;      // for bodies too large for memory; null: those are refused
  Offload* offload = nullptr;  // for slow work on large bodies; null: done on the loop
};

enum class Over : std::uint8_t { plain, tls };

// A listening socket and its transport.
struct Listening {
  int fd = -1;  // the worker closes it
  Over over = Over::plain;
};

// A resource that one connection may have to give up for another.
enum class Scarce : std::uint8_t {
  connections,
  body_memory,  // limits.max_body_memory
  spool,        // limits.max_spool
};

// A client connection as seen by a worker that drains or is overloaded.
class ServedConnection {
 public:
  enum class Closed : std::uint8_t { no, yes };
  virtual Closed close_if_idle() = 0;
  // Refuses a request that is still being received and of which nothing was forwarded: see Worker::refuses_unread().
  virtual void refuse_unread() = 0;
  // How far the client is behind a client of a decent speed in the current message; negative: ahead.
  virtual std::chrono::nanoseconds debt() const = 0;
  // Ends the connection in the middle of that message.
  virtual void displace() = 0;
  // The number of connections from its address.
  virtual std::size_t neighbours() const = 0;
  virtual bool is_from(const http::PeerNetwork& network) const = 0;
  // Whether it holds some of `what` until its client has sent a request or read a response.
  virtual bool holds(Scarce what) const = 0;
  // The client has left, or is assumed to have: closes the descriptor at once; the request continues.
  virtual void hang_up() = 0;

  ServedConnection* previous = nullptr;
  ServedConnection* next = nullptr;
  bool in_idle_list = false;  // in the list of idle connections
  bool counted = true;        // counted as open: until it ends, is displaced, or its client leaves
  bool half_closed = false;   // the client closed its sending side, and may still read the response

 protected:
  ~ServedConnection() = default;
};

class Worker final {
 public:
  Worker(GatewayShared& shared, WorkerShare share, std::shared_ptr<Generation> generation);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  // Serves connections from these until drain(). Runs on the worker's own thread.
  void run(const std::vector<Listening>& listening);
  // Without running the loop, for a caller that runs it in virtual time.
  void start(const std::vector<Listening>& listening);
  // Thread-safe: accepts no more connections, closes idle ones, and ends when the last request has ended, or after the
  // limit.
  void drain(const Drain& how);

  // Thread-safe: accepts no more connections, closes idle ones and refuses requests still being received, until
  // resume() or drain(). Both count down the latch when done.
  void pause(const Drain& how, std::latch& done);
  void resume(std::latch& done);

  // Thread-safe: serves new requests with this generation. Counts down the latch when that is in effect.
  void adopt(std::shared_ptr<Generation> generation, std::latch& adopted);

  http::Loop& loop() { return loop_; }
  Random& random() { return random_; }
  Metrics& metrics() { return metrics_; }
  AccessLog& access() { return access_; }
  // The current time as a Date value; valid until the next call.
  std::string_view date() { return date_.at(shared_.clock.now()); }
  const Metrics& metrics() const { return metrics_; }
  // The ports for one request at a time, on this worker's loop. `memory` null: unlimited.
  ExchangePorts exchange_ports(ResponseMemory* memory);
  GatewayShared& shared() { return shared_; }
  // The generation that serves new requests.
  const GenerationUse& generation() const { return generation_; }
  // Whether the current request is the last one of its connection.
  bool draining() const { return draining_ || paused_; }
  // Whether idle connections were closed for a drain or a pause. From then on no connection takes another request,
  // except the first one of a new connection if serves_arrived(). Thread-safe.
  bool idle_closed() const { return idle_closed_.load(std::memory_order_acquire); }
  // Whether requests still being received are refused: slow senders must not delay the end, or the handover of the
  // store.
  bool refuses_unread() const { return refuses_unread_; }
  // While draining with the store available: a request that has already arrived is served even if its connection seems
  // idle.
  bool serves_arrived() const { return draining_ && !paused_; }
  void enter(ServedConnection& connection);
  void leave(ServedConnection& connection);
  // The connection is idle: it may be closed for a new one when the connection limit is reached.
  void set_idle(ServedConnection& connection);
  void wakes(ServedConnection& connection);
  // The client closed its sending side during a keyed request and may have left. Its place is free for another
  // connection; it keeps its descriptor, for the response, while descriptors are plenty.
  void client_left(ServedConnection& connection);
  // The connection's descriptor has been closed.
  void hung_up(ServedConnection& connection);
  // `what` is exhausted for a newcomer whose address has `neighbours` connections: displaces a client that holds some
  // of it and sends its request or reads its response slowly. `of`: only clients of this network.
  bool displace_slow(std::size_t neighbours, Scarce what, const http::PeerNetwork* of = nullptr);
  // Keeps the worker from ending a drain until let_go(), for work that continues after its request.
  void hold() { ++held_; }
  void let_go();
  std::size_t held() const { return held_; }
  bool cut_off() const { return cut_off_; }  // connections were still busy at the drain limit

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
  // Reads the PROXY protocol header of a connection, then serves it.
  Task<void> introduce(http::Socket::Accepted accepted, Over over);
  enum class Introduced : std::uint8_t { no, yes };
  Task<Introduced> read_introduction(http::Socket& socket, sockaddr_storage& peer, Duration limit);
  void note_refusal(ProxyRefusal why, const sockaddr_storage& peer, std::string_view detail);
  void admit(const http::Socket::Accepted& accepted, Over over);
  Task<void> wait_for_descriptors(int error);
  bool make_room(const AddressTable::Share& newcomer);
  bool close_longest_idle();
  bool hang_up_longest_half_closed();
  // Stops counting it as an open connection.
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
  std::size_t accepting_ = 0;  // accepts in progress
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
  std::size_t lingering_ = 0;  // refused connections that linger
  std::vector<http::Socket*> introducing_;
  struct ListHead final : ServedConnection {
    Closed close_if_idle() override { return Closed::no; }
    void refuse_unread() override {}
    std::chrono::nanoseconds debt() const override { return {}; }
    void displace() override {}
    std::size_t neighbours() const override { return 0; }
    bool is_from(const http::PeerNetwork& /*network*/) const override { return false; }
    bool holds(Scarce /*what*/) const override { return false; }
    void hang_up() override {}
  };
  ListHead open_;
  ListHead idle_;         // idle connections, the longest idle first
  ListHead half_closed_;  // the longest first
  ListHead hung_up_;
};

}  // namespace once::gateway
