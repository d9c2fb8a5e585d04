#include "gateway/upstream/upstream_group.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"

namespace once::gateway {

using http::UpstreamConnectionPtr;

namespace {

// The most idle connections per thread and server, however many were in use.
constexpr std::size_t most_idle = 1024;
// The retry budget: the number of requests that pay for one retry, and the retries that may be made at once after a
// quiet time.
constexpr std::size_t retry_cost = 10;
constexpr std::size_t most_credit = 10 * retry_cost;

}  // namespace

std::size_t WorkerShare::of(std::size_t total) const {
  if (total == 0) return 0;
  return std::max<std::size_t>(1, total / workers + (worker < total % workers ? 1 : 0));
}

// A place in the queue. It is resumed from the loop, never inside the release of a connection.
struct UpstreamGroup::Waiting : Work {
  struct Limit : Timer {
    Waiting* waiting = nullptr;
  };

  Waiting(UpstreamGroup& in, Turn& of) : group(in), turn(of) {
    run = [](Work& work) { static_cast<Waiting&>(work).caller.resume(); };
    limit.waiting = this;
    limit.fire = [](Timer& timer) {
      Waiting& waiting = *static_cast<Limit&>(timer).waiting;
      waiting.group.leave_queue(waiting);
      waiting.caller.resume();
    };
  }

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> awaiting) { caller = awaiting; }
  void await_resume() const noexcept {}

  UpstreamGroup& group;
  Turn& turn;
  std::coroutine_handle<> caller;
  Limit limit;
  Waiting* before = nullptr;
  Waiting* after = nullptr;
};

UpstreamGroup::UpstreamGroup(UpstreamState& state, const PoolSettings& pool, WorkerShare share, const Ports& ports)
    : state_(state),
      ports_(ports),
      max_connections_(share.of(state.settings.max_connections)),
      max_queued_(share.of(state.settings.queue)),
      next_(share.worker % state.servers.size()),
      retry_credit_(most_credit) {
  ONCE_ASSERT(!state.servers.empty() && state.servers.size() <= most_servers);
  tried_all_ = ~std::uint64_t{0} >> (most_servers - state.servers.size());
  const http::PoolLimits limits{.max_idle = most_idle, .idle_max = pool.idle_max, .max_open = max_connections_};
  for (const auto& server : state.servers) {
    auto tls = tls_peer(state, *server, ports.log);
    auto connections = std::make_unique<http::UpstreamPool>(
        ports.loop, server->addresses, limits, http::response_head_limits, &server->connections, tls.get());
    servers_.push_back({.state = server.get(), .tls = std::move(tls), .pool = std::move(connections)});
    if (max_connections_ != 0) servers_.back().pool->listen(*this);
  }
}

UpstreamGroup::~UpstreamGroup() = default;

bool UpstreamGroup::has_room(const Server& server) const {
  return max_connections_ == 0 || server.pool->busy() + server.promised < max_connections_;
}

bool UpstreamGroup::may_try(const Turn& turn, std::size_t server, bool only_up) const {
  const bool tried = (turn.tried_ >> server & 1U) != 0;
  if (tried || !only_up) return !tried;
  const ServerState& state = *servers_[server].state;
  const auto now = ports_.loop.now();
  return state.health.up(now) && !state.ejection.out(now);
}

// Prefers a server that is up and not ejected. If there is none, any will do: wrong health checks or a short network
// failure must not stop everything. A server that is up but has no free connection is waited for, in preference to one
// that is down.
std::optional<std::size_t> UpstreamGroup::pick(Turn& turn) {
  const std::size_t count = servers_.size();
  if (count == 1) return turn.tried_ == 0 && has_room(servers_.front()) ? std::optional<std::size_t>(0) : std::nullopt;
  bool any_up = false;
  for (std::size_t i = 0; i < count && !any_up; ++i) any_up = may_try(turn, i, true);
  std::optional<std::size_t> chosen;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t index = (next_ + i) % count;
    if (!may_try(turn, index, any_up) || !has_room(servers_[index])) continue;
    if (chosen && servers_[*chosen].pool->busy() <= servers_[index].pool->busy()) continue;
    chosen = index;
    if (state_.settings.balance == Balance::round_robin) break;
  }
  if (!chosen) return std::nullopt;
  next_ = (*chosen + 1) % count;
  ServerState& state = *servers_[*chosen].state;
  state.health.probe(ports_.loop.now());
  turn.trial_ = state.ejection.pick(ports_.loop.now());
  return chosen;
}

UpstreamConnectionPtr UpstreamGroup::take_idle(Turn& turn, Duration longest_idle) {
  if (first_ != nullptr) connection_free();  // a server may have come up since: queued requests go first
  turn.server_ = pick(turn);
  if (!turn.server_ || turn.fresh_) return nullptr;
  Server& server = servers_[*turn.server_];
  if (servers_.size() > 1 && server.state->health.suspect()) return nullptr;
  return server.pool->take_idle(longest_idle);
}

Task<UpstreamConnectionPtr> UpstreamGroup::connect(Turn& turn, Duration longest_idle, Duration limit) {
  while (true) {
    if (!turn.server_) turn.server_ = pick(turn);
    if (!turn.server_) {
      if (all_tried(turn)) co_return UpstreamConnectionPtr();
      Waiting waiting(*this, turn);
      const bool entered = enter_queue(turn, waiting, limit);
      if (entered) co_await waiting;
      if (!turn.server_) {
        state_.queue_refused.fetch_add(1, std::memory_order_relaxed);
        turn.busy_ = true;
        co_return UpstreamConnectionPtr();
      }
      Server& promised = servers_[*turn.server_];
      --promised.promised;
      UpstreamConnectionPtr idle;
      if (!turn.fresh_) idle = promised.pool->take_idle(longest_idle);
      if (idle) co_return std::move(idle);
    }
    Server& server = servers_[*turn.server_];
    ports_.metrics.backend_connects.add();
    http::ConnectFault fault{};
    UpstreamConnectionPtr connection = co_await server.pool->connect(limit, &fault);
    if (connection) {
      log_change(ports_.log, server.state->health.reached(), state_.settings, *server.state, "a connection succeeded");
      co_return std::move(connection);
    }
    if (fault == http::ConnectFault::out_of_descriptors) {
      // Running out of descriptors is no fault of the server: refuse the request as if no connection were free.
      turn.server_.reset();
      turn.busy_ = true;
      co_return UpstreamConnectionPtr();
    }
    failed(turn);
  }
}

void UpstreamGroup::failed(Turn& turn) {
  ServerState& server = *servers_[*turn.server_].state;
  ports_.metrics.backend_connect_failures.add();
  // Its address was unknown, which says nothing about the server: it is used as soon as the name resolves.
  if (server.health.located()) {
    log_change(ports_.log, server.health.not_reached(ports_.loop.now()), state_.settings, server, "connections fail");
    served(turn, Served::badly);
  }
  turn.tried_ |= std::uint64_t{1} << *turn.server_;
  turn.server_.reset();
}

void UpstreamGroup::took_nothing(Turn& turn) {
  failed(turn);
}

void UpstreamGroup::served(const Turn& turn, Served how) {
  ServerState& server = *servers_[*turn.server_].state;
  log_change(ports_.log, server.ejection.served(how, turn.trial_, ports_.loop.now()), state_.settings, server);
}

void UpstreamGroup::earn_retry() {
  retry_credit_ = std::min(retry_credit_ + 1, most_credit);
}

UpstreamGroup::Retried UpstreamGroup::retry_elsewhere(Turn& turn) {
  Turn next;
  next.tried_ = turn.tried_ | std::uint64_t{1} << *turn.server_;
  if (all_tried(next) || retry_credit_ < retry_cost) return Retried::no;
  retry_credit_ -= retry_cost;
  next.given_up_ = true;
  turn = next;
  state_.retries.fetch_add(1, std::memory_order_relaxed);
  return Retried::yes;
}

void UpstreamGroup::retry_fresh(Turn& turn) {
  Turn next;
  next.tried_ = tried_all_ & ~(std::uint64_t{1} << *turn.server_);
  next.fresh_ = true;
  turn = next;
}

bool UpstreamGroup::enter_queue(Turn& turn, Waiting& waiting, Duration limit) {
  const auto now = ports_.loop.now();
  if (turn.waits_until_ == std::chrono::nanoseconds::zero()) turn.waits_until_ = now + limit;
  if (turn.given_up_ || queued_ >= max_queued_ || now >= turn.waits_until_) return false;
  waiting.before = last_;
  (last_ != nullptr ? last_->after : first_) = &waiting;
  last_ = &waiting;
  turn.waiting_ = &waiting;
  ++queued_;
  state_.queued.fetch_add(1, std::memory_order_relaxed);
  ports_.loop.arm(waiting.limit, std::chrono::ceil<Duration>(turn.waits_until_ - now));
  return true;
}

void UpstreamGroup::leave_queue(Waiting& waiting) {
  (waiting.before != nullptr ? waiting.before->after : first_) = waiting.after;
  (waiting.after != nullptr ? waiting.after->before : last_) = waiting.before;
  waiting.turn.waiting_ = nullptr;
  --queued_;
  state_.queued.fetch_sub(1, std::memory_order_relaxed);
  ports_.loop.disarm(waiting.limit);
}

void UpstreamGroup::wake(Waiting& waiting) {
  leave_queue(waiting);
  ports_.loop.post(waiting);
}

// Wakes queued requests in their order, except that later ones may take a server that an earlier one could not reach.
void UpstreamGroup::connection_free() {
  for (Waiting* waiting = first_; waiting != nullptr;) {
    Waiting* const next = waiting->after;
    Turn& turn = waiting->turn;
    turn.server_ = pick(turn);
    if (turn.server_) {
      ++servers_[*turn.server_].promised;
      wake(*waiting);
    } else if (turn.tried_ == 0) {
      return;
    }
    waiting = next;
  }
}

void UpstreamGroup::give_up(Turn& turn) {
  turn.given_up_ = true;
  if (turn.waiting_ != nullptr) wake(*turn.waiting_);
}

}  // namespace once::gateway
