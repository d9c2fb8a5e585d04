// The connection pool of a store. A batch takes a connection, uses it exclusively and returns it, or drops it when it
// is broken. While the server is unreachable, one caller at a time tries to connect now and then; all others fail at
// once instead of queueing. No caller waits past the deadline of its call, neither in the queue nor while connecting.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/backoff.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "store/server/discard_unsent.hpp"
#include "store/server/server_store.hpp"

namespace once::store {

// A connection has a method descriptor(), which returns its socket.
template <class Connection>
class ConnectionPool {
 public:
  // Must return before this time (monotonic_now()).
  using Connect = std::function<Result<std::unique_ptr<Connection>>(std::chrono::nanoseconds until)>;

  ConnectionPool(std::size_t limit, ServerCounts& counts, Connect connect)
      : limit_(limit), counts_(counts), connect_(std::move(connect)) {}
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;
  // A pool may be destroyed before its store, for example when a server leaves a cluster.
  ~ConnectionPool() { counts_.connections.fetch_sub(idle_.size(), std::memory_order_relaxed); }

  // Returned to the pool on destruction, unless it was dropped.
  class Lease {
   public:
    Lease(ConnectionPool& pool, std::unique_ptr<Connection> connection)
        : pool_(&pool), connection_(std::move(connection)) {}
    Lease(Lease&& other) noexcept : pool_(other.pool_), connection_(std::move(other.connection_)) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (connection_) pool_->give_back(std::move(connection_));
    }

    Connection& operator*() const { return *connection_; }
    Connection* operator->() const { return connection_.get(); }

    // Drops the connection: it is broken, or its next reply may belong to an earlier request.
    void drop() {
      discard_unsent(connection_->descriptor());
      connection_.reset();
      pool_->dropped();
    }

   private:
    ConnectionPool* pool_;
    std::unique_ptr<Connection> connection_;
  };

  // Waits while all connections are in use. On an error, nothing was sent.
  Result<Lease> take(std::chrono::nanoseconds until) {
    std::unique_lock lock(mutex_);
    const auto is_free = [this] { return !idle_.empty() || open_ < limit_; };
    // Waits in steps, because the library adds the timeout to a clock, which could overflow.
    while (!is_free()) {
      const std::chrono::nanoseconds now = monotonic_now();
      if (now >= until) return std::unexpected(all_in_use());
      free_.wait_for(lock, std::min<std::chrono::nanoseconds>(until - now, std::chrono::minutes(1)), is_free);
    }
    if (!idle_.empty()) {
      std::unique_ptr<Connection> connection = std::move(idle_.back());
      idle_.pop_back();
      return Lease(*this, std::move(connection));
    }
    if (monotonic_now() < next_try_ || (failing_ && trying_)) return std::unexpected(last_error_);
    ++open_;
    trying_ = true;
    lock.unlock();
    auto made = connect_(until);
    lock.lock();
    trying_ = false;
    if (made) {
      note_connected();
      return Lease(*this, std::move(*made));
    }
    --open_;
    counts_.connect_failures.fetch_add(1, std::memory_order_relaxed);
    last_error_ = made.error();
    failing_ = true;
    next_try_ = monotonic_now() + pauses_.next();
    free_.notify_all();
    return std::unexpected(std::move(made.error()));
  }

  // Closes idle connections, because their server seems to be gone.
  void drop_idle() {
    std::vector<std::unique_ptr<Connection>> idle;
    {
      const std::scoped_lock lock(mutex_);
      idle.swap(idle_);
      open_ -= idle.size();
      counts_.connections.fetch_sub(idle.size(), std::memory_order_relaxed);
      free_.notify_all();
    }
    for (const auto& connection : idle) discard_unsent(connection->descriptor());
  }

  // Adds a connection that was made elsewhere, if there is room for it.
  void add(std::unique_ptr<Connection> connection) {
    const std::scoped_lock lock(mutex_);
    if (open_ >= limit_) return;
    ++open_;
    note_connected();
    idle_.push_back(std::move(connection));
    free_.notify_one();
  }

 private:
  static Error all_in_use() {
    return {.source = ErrorSource::store,
            .retryable = Retryable::yes,
            .detail = "all connections to the store's server were in use until the call was over"};
  }

  void note_connected() {
    failing_ = false;
    pauses_.reset();
    next_try_ = {};
    counts_.connects.fetch_add(1, std::memory_order_relaxed);
    counts_.connections.fetch_add(1, std::memory_order_relaxed);
  }

  static constexpr Duration first_pause = std::chrono::milliseconds(50);
  static constexpr Duration longest_pause = std::chrono::milliseconds(2000);

  void give_back(std::unique_ptr<Connection> connection) {
    const std::scoped_lock lock(mutex_);
    idle_.push_back(std::move(connection));
    free_.notify_one();
  }
  void dropped() {
    const std::scoped_lock lock(mutex_);
    --open_;
    counts_.connections.fetch_sub(1, std::memory_order_relaxed);
    free_.notify_one();
  }

  const std::size_t limit_;
  ServerCounts& counts_;
  const Connect connect_;

  std::mutex mutex_;
  std::condition_variable free_;
  std::vector<std::unique_ptr<Connection>> idle_;
  std::size_t open_ = 0;  // idle, in use or being made
  bool trying_ = false;   // a caller is connecting
  Backoff pauses_{first_pause, longest_pause};
  bool failing_ = false;  // the last try to connect failed
  std::chrono::nanoseconds next_try_{};
  Error last_error_{.source = ErrorSource::store, .retryable = Retryable::yes, .detail = {}};
};

}  // namespace once::store
