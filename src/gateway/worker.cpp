#include "gateway/worker.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "gateway/connection/connection.hpp"
#include "gateway/connection/reply.hpp"

namespace once::gateway {

namespace {

constexpr Duration accept_pause = std::chrono::milliseconds(100);
constexpr Duration accept_wait = std::chrono::hours(1);
// How often a listener that currently accepts nothing checks again.
constexpr Duration pause_look = std::chrono::milliseconds(10);
constexpr Duration refuse_limit = std::chrono::seconds(1);
// How often a drain checks for claims that are still ended in the background.
constexpr Duration settle_pause = std::chrono::milliseconds(10);

// Limits on refused connections that linger; beyond them they are closed at once. Each holds a descriptor, so a low
// max_connections allows fewer.
constexpr std::size_t most_lingering = 256;
constexpr std::size_t least_lingering = 8;
constexpr std::size_t served_for_one_lingering = 8;
constexpr std::size_t refused_linger_bytes = std::size_t{64} << 10U;

// A connection whose client is less late than this is not displaced.
constexpr Duration least_debt = std::chrono::seconds(1);
// How many connections are compared to find one to displace.
constexpr std::size_t most_looked_at = 64;

Problem too_many(std::string_view why) {
  Problem answer = problem(ProblemKind::too_many_connections, std::string(why));
  answer.retry_after_seconds = 1;
  return answer;
}

Task<void> serve(Worker& worker, http::Socket::Accepted accepted, Over over, AddressTable::Share share) {
  Connection connection(worker, accepted, over, std::move(share));
  co_await connection.run();
}

void link(ServedConnection& connection, ServedConnection& before) {
  connection.previous = before.previous;
  connection.next = &before;
  before.previous->next = &connection;
  before.previous = &connection;
}

void unlink(ServedConnection& connection) {
  connection.previous->next = connection.next;
  connection.next->previous = connection.previous;
}

}  // namespace

Worker::Worker(GatewayShared& shared, WorkerShare share, std::shared_ptr<Generation> generation)
    : shared_(shared),
      share_(share),
      loop_(shared.net),
      random_(shared.random != nullptr ? *shared.random : system_random_),
      access_(loop_, shared.access, shared.clock),
      generation_(serve_by(std::move(generation))) {
  loop_.listen(shared_.faults);
  adopt_work_.worker = this;
  adopt_work_.run = [](Work& work) {
    auto& adopt = static_cast<AdoptWork&>(work);
    Worker& worker = *adopt.worker;
    worker.generation_ = worker.serve_by(std::move(adopt.generation));
    adopt.adopted->count_down();
  };
  for (ListHead* list : {&open_, &idle_, &half_closed_, &hung_up_}) list->previous = list->next = list;
  drain_work_.worker = this;
  drain_work_.run = [](Work& work) {
    auto& drain = static_cast<DrainWork&>(work);
    drain.worker->start_draining(drain.how);
  };
  pause_work_.worker = resume_work_.worker = this;
  pause_work_.run = [](Work& work) {
    auto& pause = static_cast<PauseWork&>(work);
    pause.worker->start_pause(pause.how);
    pause.done->count_down();
  };
  resume_work_.run = [](Work& work) {
    auto& resume = static_cast<PauseWork&>(work);
    resume.worker->end_pause();
    resume.done->count_down();
  };
  drain_timer_.worker = this;
  drain_timer_.fire = [](Timer& timer) {
    Worker& worker = *static_cast<DrainTimer&>(timer).worker;
    worker.cut_off_ = true;
    worker.loop_.stop();
  };
  idle_timer_.worker = this;
  idle_timer_.fire = [](Timer& timer) { static_cast<DrainTimer&>(timer).worker->close_idle(); };
  unread_timer_.worker = this;
  unread_timer_.fire = [](Timer& timer) { static_cast<DrainTimer&>(timer).worker->refuse_unread(); };
  settle_timer_.worker = this;
  settle_timer_.fire = [](Timer& timer) { static_cast<DrainTimer&>(timer).worker->stop_if_drained(); };
}

GenerationUse Worker::serve_by(std::shared_ptr<Generation> generation) {
  const UpstreamGroup::Ports ports{.loop = loop_, .metrics = metrics_, .log = shared_.log};
  return GenerationUse(new ServedGeneration(std::move(generation), share_, ports, shared_.via));
}

ExchangePorts Worker::exchange_ports(ResponseMemory* memory) {
  return {.store = shared_.store,
          .waiters = shared_.waiters,
          .executions = shared_.executions,
          .home = loop_,
          .clock = shared_.clock,
          .random = random_,
          .metrics = metrics_,
          .log = shared_.log,
          .errors_base = shared_.errors_base,
          .memory = memory,
          .streams = &shared_.streams,
          .offload = shared_.offload};
}

Worker::~Worker() {
  loop_.disarm(drain_timer_);
  loop_.disarm(idle_timer_);
  loop_.disarm(unread_timer_);
  loop_.disarm(settle_timer_);
}

void Worker::enter(ServedConnection& connection) {
  link(connection, open_);
  metrics_.connections_opened.add();
  metrics_.connections_open.add();
}

void Worker::leave(ServedConnection& connection) {
  unlink(connection);
  if (std::exchange(connection.half_closed, false)) shared_.half_closed.fetch_sub(1, std::memory_order_relaxed);
  count_out(connection);
  stop_if_drained();
}

void Worker::count_out(ServedConnection& connection) {
  if (!std::exchange(connection.counted, false)) return;
  metrics_.connections_open.subtract();
  shared_.connections.fetch_sub(1, std::memory_order_relaxed);
}

void Worker::set_idle(ServedConnection& connection) {
  metrics_.idle_releases.add();
  unlink(connection);
  link(connection, idle_);
  connection.in_idle_list = true;
}

void Worker::wakes(ServedConnection& connection) {
  unlink(connection);
  link(connection, open_);
  connection.in_idle_list = false;
}

void Worker::client_left(ServedConnection& connection) {
  unlink(connection);
  link(connection, half_closed_);
  connection.half_closed = true;
  shared_.half_closed.fetch_add(1, std::memory_order_relaxed);
  count_out(connection);
}

void Worker::hung_up(ServedConnection& connection) {
  unlink(connection);
  link(connection, hung_up_);
  if (std::exchange(connection.half_closed, false)) shared_.half_closed.fetch_sub(1, std::memory_order_relaxed);
  count_out(connection);
}

void Worker::let_go() {
  --held_;
  stop_if_drained();
}

void Worker::stop_if_drained() {
  const auto serves = [](const ListHead& list) { return list.next != &list; };
  const bool connected = serves(open_) || serves(idle_) || serves(half_closed_) || serves(hung_up_);
  if (connected || held_ > 0) return;
  if (paused_) idle_closed_.store(true, std::memory_order_release);
  if (!draining_ || accepting_ > 0) return;
  idle_closed_.store(true, std::memory_order_release);
  if (metrics_.unsettled.value() > 0) {
    loop_.arm(settle_timer_, settle_pause);
  } else {
    loop_.stop();
  }
}

void Worker::start(const std::vector<Listening>& listening) {
  for (const Listening& from : listening) {
    listeners_.push_back(std::make_unique<http::Socket>(loop_, from.fd));
    ++accepting_;
    spawn(accept_all(*listeners_.back(), from.over));
  }
}

void Worker::run(const std::vector<Listening>& listening) {
  start(listening);
  loop_.run();
  access_.flush();
}

void Worker::admit(const http::Socket::Accepted& accepted, Over over) {
  const Limits& limits = generation_->settings().limits;
  const std::size_t most_of_address = limits.max_connections_per_address;
  AddressTable::Share share =
      shared_.addresses.enter(http::network_of(accepted.peer),
                              most_of_address != 0 ? most_of_address : std::numeric_limits<std::size_t>::max());
  if (!share) {
    spawn(refuse(accepted.fd, over, too_many("This address has reached its limit of connections. Retry later.")));
    return;
  }
  if (shared_.connections.fetch_add(1, std::memory_order_relaxed) >= limits.max_connections && !make_room(share)) {
    shared_.connections.fetch_sub(1, std::memory_order_relaxed);
    spawn(refuse(accepted.fd, over, too_many("This gateway has reached its limit of connections. Retry later.")));
    return;
  }
  const std::size_t descriptors =
      shared_.connections.load(std::memory_order_relaxed) + shared_.half_closed.load(std::memory_order_relaxed);
  if (descriptors > limits.max_connections) hang_up_longest_half_closed();
  spawn(serve(*this, accepted, over, std::move(share)));
}

// A flood of idle connections must not keep out active clients: closes one of them from the loop, and stops counting it
// now.
bool Worker::make_room(const AddressTable::Share& newcomer) {
  if (idle_.next == &idle_) return displace_slow(newcomer.count(), Scarce::connections);
  return close_longest_idle();
}

bool Worker::close_longest_idle() {
  ServedConnection& longest = *idle_.next;
  wakes(longest);
  if (longest.close_if_idle() == ServedConnection::Closed::no) return false;
  count_out(longest);
  metrics_.connections_displaced.add();
  return true;
}

bool Worker::hang_up_longest_half_closed() {
  if (half_closed_.next == &half_closed_) return false;
  half_closed_.next->hang_up();
  return true;
}

// A client can be just fast enough to avoid timeouts and hold a connection, memory or disk space for hours. Displaces
// one, preferring addresses with many connections, and never for a newcomer whose address has more. Each search starts
// where the last one ended.
bool Worker::displace_slow(std::size_t neighbours, Scarce what, const http::PeerNetwork* of) {
  ServedConnection* slowest = nullptr;
  std::pair<std::size_t, std::chrono::nanoseconds> worst{neighbours, least_debt};
  ServedConnection* const last = open_.previous;
  ServedConnection* looked_at = nullptr;
  for (std::size_t looks = 0; looks < most_looked_at && looked_at != last && open_.next != &open_; ++looks) {
    looked_at = open_.next;
    unlink(*looked_at);
    link(*looked_at, open_);
    if (!looked_at->holds(what) || (of != nullptr && !looked_at->is_from(*of))) continue;
    const auto debt = looked_at->debt();
    if (debt < least_debt) continue;
    const std::pair<std::size_t, std::chrono::nanoseconds> found{looked_at->neighbours(), debt};
    if (found < worst) continue;
    slowest = looked_at;
    worst = found;
  }
  if (slowest == nullptr) return false;
  slowest->displace();
  count_out(*slowest);
  metrics_.connections_displaced.add();
  return true;
}

// Answers a connection that is refused instead of just closing it. Over TLS it is closed, because a handshake would
// cost more than serving it.
Task<void> Worker::refuse(int fd, Over over, Problem answer) {
  metrics_.connections_refused.add();
  http::Socket socket(loop_, fd);
  if (over == Over::tls) co_return;
  Reply reply;
  const ProblemForm form{.type_base = shared_.errors_base, .wording = generation_->routes().common_wording()};
  write_problem(reply, std::move(answer), form, "", Ending::rejected);
  reply.fields.add("Date", date());
  std::string head;
  http::append_head(head, {.status = reply.status,
                           .reason = reply.reason,
                           .fields = reply.fields.view(),
                           .framing = {.kind = http::Framing::Kind::length, .length = reply.body.size()},
                           .connection = http::ConnectionField::close});
  hold();
  const http::IoResult sent = co_await socket.write_all(head, reply.body, refuse_limit);
  // Closing at once could reset the connection while the client sends, and destroy the reply: linger.
  const std::size_t share = share_.of(generation_->settings().limits.max_connections) / served_for_one_lingering;
  if (sent.status == http::Io::ok && lingering_ < std::clamp(share, least_lingering, most_lingering)) {
    ++lingering_;
    socket.shut_down_writing();
    std::array<char, 1024> room;
    std::size_t read = 0;
    const auto until = loop_.now() + refuse_limit;
    while (read < refused_linger_bytes && loop_.now() < until) {
      const http::IoResult got = co_await socket.read_some(room, refuse_limit);
      if (got.status != http::Io::ok) break;
      read += got.bytes;
    }
    --lingering_;
  }
  let_go();
}

// New connections wait in the listening socket meanwhile; an idle connection is closed to free a descriptor.
Task<void> Worker::wait_for_descriptors(int error) {
  loop_.report_out_of_descriptors(http::DescriptorUse::client, http::error_text(error));
  const bool made = hang_up_longest_half_closed();
  if (!made && idle_.next != &idle_) close_longest_idle();
  co_await sleep_for(loop_, accept_pause);
}

Task<void> Worker::accept_all(http::Socket& listener, Over over) {
  while (!draining_) {
    if (paused_) {
      co_await sleep_for(loop_, pause_look);
      continue;
    }
    const http::Socket::Accepted accepted = listener.accept();
    if (accepted.fd >= 0) {
      take(accepted, over);
      loop_.spend(0);
      if (loop_.spent()) co_await listener.readable(accept_wait);
    } else if (errno == EAGAIN) {
      const http::Io ready = co_await listener.readable(accept_wait);
      if (ready == http::Io::failed) co_await sleep_for(loop_, accept_pause);
    } else if (const int error = errno; http::is_out_of_descriptors(error)) {
      co_await wait_for_descriptors(error);
    } else if (error == ENOBUFS || error == ENOMEM) {
      shared_.log.error("cannot accept connections", {{"error", http::error_text(error)}});
      co_await sleep_for(loop_, accept_pause);
    }
  }
  // Serve connections that the kernel accepted before the listener was closed.
  if (!successor_) {
    for (auto accepted = listener.accept(); accepted.fd >= 0; accepted = listener.accept()) take(accepted, over);
  }
  std::erase_if(listeners_, [&listener](const auto& owned) { return owned.get() == &listener; });
  --accepting_;
  stop_if_drained();
}

void Worker::adopt(std::shared_ptr<Generation> generation, std::latch& adopted) {
  adopt_work_.generation = std::move(generation);
  adopt_work_.adopted = &adopted;
  loop_.post(adopt_work_);
}

void Worker::drain(const Drain& how) {
  drain_work_.how = how;
  loop_.post(drain_work_);
}

void Worker::start_draining(const Drain& how) {
  draining_ = true;
  successor_ = how.successor;
  loop_.arm(drain_timer_, how.limit);
  for (const auto& listener : listeners_) listener->cancel();
  for (http::Socket* socket : introducing_) socket->cancel();
  loop_.arm(unread_timer_, how.unread_grace);
  close_idle_after(how.idle_grace);
}

void Worker::pause(const Drain& how, std::latch& done) {
  pause_work_.how = how;
  pause_work_.done = &done;
  loop_.post(pause_work_);
}

void Worker::resume(std::latch& done) {
  resume_work_.done = &done;
  loop_.post(resume_work_);
}

void Worker::start_pause(const Drain& how) {
  paused_ = true;
  for (const auto& listener : listeners_) listener->cancel();
  loop_.arm(unread_timer_, how.unread_grace);
  close_idle_after(how.idle_grace);
  stop_if_drained();
}

void Worker::end_pause() {
  paused_ = false;
  refuses_unread_ = false;
  loop_.disarm(idle_timer_);
  loop_.disarm(unread_timer_);
  idle_closed_.store(false, std::memory_order_release);
  for (const auto& listener : listeners_) listener->restore();
}

void Worker::close_idle_after(Duration grace) {
  if (grace > Duration::zero()) {
    loop_.arm(idle_timer_, grace);
  } else {
    close_idle();
  }
}

void Worker::refuse_unread() {
  refuses_unread_ = true;
  for (ServedConnection* connection = open_.next; connection != &open_; connection = connection->next) {
    connection->refuse_unread();
  }
}

void Worker::close_idle() {
  idle_closed_.store(true, std::memory_order_release);
  for (ServedConnection* ends : {static_cast<ServedConnection*>(&open_), static_cast<ServedConnection*>(&idle_)}) {
    for (ServedConnection* connection = ends->next; connection != ends; connection = connection->next) {
      connection->close_if_idle();
    }
  }
}

}  // namespace once::gateway
