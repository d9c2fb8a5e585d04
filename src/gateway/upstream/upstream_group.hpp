// One worker's connections to a backend with one server or several: which server is next, another one when that cannot
// be reached, and a queue for when all of them have as many connections as they may.
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

// Which worker of how many: each has its share of what counts for the whole process.
struct WorkerShare {
  unsigned worker = 0;
  unsigned workers = 1;

  // At least 1 unless there is nothing to share.
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

  // One request's way to a connection. While nothing was sent it may be taken up again, with another server.
  class Turn {
   public:
    bool busy() const { return busy_; }

   private:
    friend class UpstreamGroup;
    std::uint64_t tried_ = 0;            // servers that could not be reached, a bit each
    std::optional<std::size_t> server_;  // the one at hand
    ServerEjection::Trial trial_;        // it is ejected, and this request tries it
    Waiting* waiting_ = nullptr;         // in the queue
    std::chrono::nanoseconds waits_until_{};
    bool given_up_ = false;
    bool fresh_ = false;  // no idle connection will do
    bool busy_ = false;   // why there is no connection: no server had one to give
  };

  // A connection that rested at the server whose turn it is, or null: then connect() goes on.
  http::UpstreamConnectionPtr take_rested(Turn& turn, Duration rested_at_most);
  // A new connection, or what came free while it waited for one; null: none of the servers could be reached, or they
  // are all busy and the queue is full or took too long. `limit` is for the queue, and for each attempt to connect.
  Task<http::UpstreamConnectionPtr> connect(Turn& turn, Duration rested_at_most, Duration limit);
  // The connection was new and took not one byte: as if it had never been made.
  void took_nothing(Turn& turn);
  // What came back over the turn's connection. Whether the server gets more requests may depend on it.
  void served(const Turn& turn, Served how);
  // A request that may be sent to a second server: it earns its share of such a retry, which keeps a backend in trouble
  // from being sent twice as much.
  void earn_retry();
  // The server at hand did not answer, or not well, and the request may be sent once more: the turn goes on with the
  // others, without queueing. False: there is no other one, or too many retries were made of late.
  bool retry_elsewhere(Turn& turn);
  // The idle connection that the turn found was closed, and the request may be sent once more: the turn goes on with
  // the same server and a new connection.
  void retry_fresh(Turn& turn);
  // Nobody waits for this one any more: it leaves the queue, or does not enter it.
  void give_up(Turn& turn);

  // Of the server that the turn's connection goes to.
  const ServerState& server(const Turn& turn) const { return *servers_[*turn.server_].state; }
  std::size_t queued() const { return queued_; }

 private:
  struct Server {
    ServerState* state;
    std::unique_ptr<http::TlsPeer> tls;  // null: without
    std::unique_ptr<http::UpstreamPool> pool;
    std::size_t promised = 0;  // connections that somebody in the queue has been given and not taken yet
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
  std::size_t next_;  // where round robin goes on
  std::size_t retry_credit_;
  Waiting* first_ = nullptr;
  Waiting* last_ = nullptr;
  std::size_t queued_ = 0;
};

}  // namespace once::gateway
