// One worker's connections to a backend with one or more servers: picks the next server, tries another one if it cannot
// be reached, and queues requests while all servers have their maximum of connections.
#pragma once

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/log.hpp"
#include "base/task.hpp"
#include "gateway/metrics.hpp"
#include "gateway/upstream/upstream_state.hpp"
#include "http/loop.hpp"
#include "http/tls_context.hpp"
#include "http/upstream.hpp"

namespace once::gateway {

inline constexpr std::size_t most_servers = 64;

// Which of how many workers this is: each gets its share of process-wide limits.
struct WorkerShare {
  unsigned worker = 0;
  unsigned workers = 1;

  // The share of `total`; at least 1 unless `total` is 0.
  std::size_t of(std::size_t total) const;
};

class UpstreamGroup final : private http::PoolListener {
 private:
  struct Waiting;

 public:
  struct Ports {
    http::Loop& loop;
    Metrics& metrics;
    const Log& log;
  };

  UpstreamGroup(UpstreamState& state, const PoolSettings& pool, WorkerShare share, const Ports& ports);
  UpstreamGroup(const UpstreamGroup&) = delete;
  UpstreamGroup& operator=(const UpstreamGroup&) = delete;
  ~UpstreamGroup();

  // One request's choice of a server and its place in the queue. Until something is sent, another server may be tried.
  class Turn {
   public:
    bool busy() const { return busy_; }

   private:
    friend class UpstreamGroup;
    std::uint64_t tried_ = 0;            // servers that could not be reached, one bit each
    std::optional<std::size_t> server_;  // the current server
    ServerEjection::Trial trial_;        // set if the server is ejected and this request is its trial
    Waiting* waiting_ = nullptr;         // its place in the queue
    std::chrono::nanoseconds waits_until_{};
    bool given_up_ = false;
    bool fresh_ = false;  // a new connection is required
    bool busy_ = false;   // why there is no connection: no server had a free one
  };

  // An idle connection of the turn's server; null: call connect().
  http::UpstreamConnectionPtr take_idle(Turn& turn, Duration longest_idle);
  // A new connection, or one that became free during the wait; null: none of the servers could be reached, or they
  // are all busy and the queue is full or took too long. `limit` is for the queue, and for each attempt to connect.
  Task<http::UpstreamConnectionPtr> connect(Turn& turn, Duration longest_idle, Duration limit);
  // The connection was new and took no byte: treat it as a failed connect.
  void took_nothing(Turn& turn);
  // Reports how the request was handled over the turn's connection; the server's ejection may depend on it.
  void served(const Turn& turn, Served how);
  // Adds a request's share to the retry budget, which keeps a failing backend from getting twice the load.
  void earn_retry();
  // The current server did not answer, or answered badly, and the request may be resent: continues with another server,
  // without queueing. `no`: there is no other server, or the retry budget is used up.
  enum class Retried : std::uint8_t { no, yes };
  Retried retry_elsewhere(Turn& turn);
  // The idle connection was closed, and the request may be resent: continues with the same server over a new
  // connection.
  void retry_fresh(Turn& turn);
  // Gives up the turn: it leaves the queue, or will not enter it.
  void give_up(Turn& turn);

  // The server of the turn's connection.
  const ServerState& server(const Turn& turn) const { return *servers_[*turn.server_].state; }
  std::size_t queued() const { return queued_; }

 private:
  struct Server {
    ServerState* state;
    std::unique_ptr<http::TlsPeer> tls;  // null: without
    std::unique_ptr<http::UpstreamPool> pool;
    std::size_t promised = 0;  // connections that were given to queued requests and not taken yet
  };

  void connection_free() override;
  std::optional<std::size_t> pick(Turn& turn);
  bool may_try(const Turn& turn, std::size_t server, bool only_up) const;
  bool has_room(const Server& server) const;
  bool all_tried(const Turn& turn) const { return tried_all_ == turn.tried_; }
  void failed(Turn& turn);
  bool enter_queue(Turn& turn, Waiting& waiting, Duration limit);
  void leave_queue(Waiting& waiting);
  void wake(Waiting& waiting);

  UpstreamState& state_;
  Ports ports_;
  std::size_t max_connections_;
  std::size_t max_queued_;
  std::uint64_t tried_all_;
  std::vector<Server> servers_;
  std::size_t next_;  // the next one for round robin
  std::size_t retry_credit_;
  Waiting* first_ = nullptr;
  Waiting* last_ = nullptr;
  std::size_t queued_ = 0;
};

}  // namespace once::gateway
