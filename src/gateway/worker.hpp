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
#include "gateway/address_limit.hpp"
#include "gateway/caller_limits.hpp"
#include "gateway/executions.hpp"
#include "gateway/generation.hpp"
#include "gateway/load.hpp"
#include "gateway/metrics.hpp"
#include "gateway/reply.hpp"
#include "gateway/told_outcomes.hpp"
#include "gateway/waiters.hpp"
#include "http/fault_log.hpp"
#include "http/loop.hpp"
#include "http/socket.hpp"
#include "store/lane.hpp"

namespace once {

struct Drain {
  Duration limit{};       // for requests at work
  Duration idle_grace{};  // for connections that idle: one more request, answered as the last, may come until then
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
  const Log* access_log;  // null: off
  http::FaultLog& faults;
  std::string errors_base;
  std::atomic<std::size_t> connections = 0;
  Load load{};
  Executions executions{};
  CallerTable callers{};
  CallerTable networks{};  // of callers that are not proven, by http::PeerNetwork
  AddressTable addresses{};
  ToldOutcomes told{load};
};

enum class Over : std::uint8_t { plain, tls };

// Where a worker takes connections from, and what they speak.
struct Listening {
  int fd = -1;  // the worker closes it
  Over over = Over::plain;
};

// A client's connection, as the worker needs to see it when it drains or is full.
class ServedConnection {
 public:
  virtual void close_if_idle() = 0;
  // How long its client keeps it waiting in the midst of a message, beyond what a client of a decent speed would.
  virtual std::chrono::nanoseconds debt() const = 0;
  // It ends, in the midst of that message.
  virtual void displace() = 0;
  // How many connections there are from its address.
  virtual std::size_t neighbours() const = 0;

  ServedConnection* previous = nullptr;
  ServedConnection* next = nullptr;
  bool resting = false;  // in the list of those

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
  // From any thread: accept no more, close what idles, end when the last request has, or after the limit.
  void drain(const Drain& how);

  // From any thread: new requests are served by this generation. Counts down when that is so.
  void adopt(std::shared_ptr<Generation> generation, std::latch& adopted);

  http::Loop& loop() { return loop_; }
  Random& random() { return random_; }
  Metrics& metrics() { return metrics_; }
  // The time as a field Date has it; valid until the next call.
  std::string_view date() { return date_.at(shared_.clock.now()); }
  const Metrics& metrics() const { return metrics_; }
  GatewayShared& shared() { return shared_; }
  // By which new requests are served.
  const GenerationUse& generation() const { return generation_; }
  // This request is the connection's last.
  bool draining() const { return draining_; }
  // Connections that idle are closed, and no request begins any more but on one that was at work. From any thread.
  bool idle_closed() const { return idle_closed_.load(std::memory_order_acquire); }
  void enter(ServedConnection& connection);
  void leave(ServedConnection& connection);
  // It has idled for a while: when there are as many connections as there may be, it is closed for a new one.
  void rests(ServedConnection& connection);
  void wakes(ServedConnection& connection);
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
  struct DrainTimer : Timer {
    Worker* worker = nullptr;
  };

  Task<void> accept_all(http::Socket& listener, Over over);
  GenerationUse serve_by(std::shared_ptr<Generation> generation);
  void start_draining(const Drain& how);
  void close_idle();
  void admit(const http::Socket::Accepted& accepted, Over over);
  bool make_room(const AddressTable::Share& newcomer);
  bool displace_slow(const AddressTable::Share& newcomer);
  Task<void> refuse(int fd, Over over, std::string_view why);
  void stop_if_drained();

  GatewayShared& shared_;
  WorkerShare share_;
  http::Loop loop_;
  SystemRandom random_;
  Metrics metrics_;
  DateText date_;
  GenerationUse generation_;
  std::vector<std::unique_ptr<http::Socket>> listeners_;
  std::size_t accepting_ = 0;  // of them
  bool draining_ = false;
  bool successor_ = false;
  std::atomic<bool> idle_closed_ = false;
  bool cut_off_ = false;
  AdoptWork adopt_work_;
  DrainWork drain_work_;
  DrainTimer drain_timer_;
  DrainTimer idle_timer_;
  DrainTimer settle_timer_;
  std::size_t held_ = 0;
  std::size_t lingering_ = 0;  // connections that were refused
  struct Ends final : ServedConnection {
    void close_if_idle() override {}
    std::chrono::nanoseconds debt() const override { return {}; }
    void displace() override {}
    std::size_t neighbours() const override { return 0; }
  };
  Ends open_;     // list head
  Ends resting_;  // the same of those that rest, the longest first
};

}  // namespace once
