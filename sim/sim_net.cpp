#include "sim/sim_net.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.hpp"

namespace once::sim {

namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t gone = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLERR | EPOLLHUP;

}  // namespace

std::string_view name_of(NetCall call) {
  switch (call) {
    case NetCall::accept: return "accept";
    case NetCall::connect: return "connect";
    case NetCall::receive: return "receive";
    case NetCall::peek: return "peek";
    case NetCall::send: return "send";
    case NetCall::add: return "add";
  }
  return "";
}

std::string_view name_of(NetFault fault) {
  switch (fault) {
    case NetFault::none: return "none";
    case NetFault::again: return "again";
    case NetFault::interrupted: return "interrupted";
    case NetFault::brief: return "brief";
    case NetFault::reset: return "reset";
    case NetFault::no_descriptors: return "no descriptors";
  }
  return "";
}

http::Endpoint Network::address(std::string_view ip, std::uint16_t port) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  ONCE_ASSERT(::inet_pton(AF_INET, std::string(ip).c_str(), &four.sin_addr) == 1);
  http::Endpoint endpoint;
  std::memcpy(&endpoint.address, &four, sizeof four);
  endpoint.size = sizeof four;
  return endpoint;
}

Duration Network::some_delay() {
  return weather_.delay > 0ms ? world_.draw.between(0ms, weather_.delay) : 0ms;
}

std::pair<std::shared_ptr<End>, std::shared_ptr<End>> Network::pair() {
  auto one = std::make_shared<End>();
  auto two = std::make_shared<End>();
  one->link = two->link = ++links_;
  one->other = two;
  two->other = one;
  open_[one.get()] = one;
  open_[two.get()] = two;
  for (End* end : {one.get(), two.get()}) {
    if (!world_.draw.percent(weather_.cuts)) continue;
    end->breaks_after = world_.draw.between(1, weather_.cut_within);
    end->breaks_clean = world_.draw.one_in(3);
  }
  return {one, two};
}

void Network::deliver_later(std::shared_ptr<End> to, std::function<void(End&)> what) {
  to->last_arrival = std::max(to->last_arrival, world_.now() + some_delay());
  world_.after(to->last_arrival - world_.now(), [to, what = std::move(what)] { what(*to); });
}

std::size_t Network::room(const End& from) const {
  const auto to = from.other.lock();
  if (!to || to->closed || to->broken) return weather_.capacity;  // taken, and answered with a reset
  const std::size_t held = to->coming + to->inbox.size();
  return held < weather_.capacity ? weather_.capacity - held : 0;
}

std::size_t Network::send(End& from, std::string_view bytes) {
  const std::size_t taken = std::min(bytes.size(), room(from));
  from.wants_room = from.wants_room || taken < bytes.size();
  const auto to = from.other.lock();
  if (!to || taken == 0) return taken;
  std::string_view rest = bytes.substr(0, taken);
  while (!rest.empty()) {
    std::size_t part = rest.size();
    if (part > 1 && world_.draw.percent(weather_.splits))
      part = world_.draw.between(1, std::min<std::size_t>(part, 300));
    to->coming += part;
    deliver_later(to, [this, text = std::string(rest.substr(0, part))](End& end) { arrive(end, text); });
    rest.remove_prefix(part);
  }
  return taken;
}

void Network::arrive(End& to, const std::string& bytes) {
  to.coming -= bytes.size();
  if (to.broken || to.ended) return;
  const auto from = to.other.lock();
  // Nobody is there to read it.
  if (to.closed) {
    if (from && !from->closed) deliver_later(from, [this](End& end) { arrive_reset(end); });
    return;
  }
  std::size_t arrived = bytes.size();
  const bool breaks = to.breaks_after != 0 && arrived >= to.breaks_after;
  if (breaks) arrived = to.breaks_after - 1;
  if (to.breaks_after != 0) to.breaks_after -= arrived;
  to.inbox.append(bytes, 0, arrived);
  if (arrived > 0) notify(to);
  if (!breaks) return;
  to.breaks_after = 0;
  if (to.breaks_clean) {
    // What comes between has closed this direction in order, and takes nothing more from the sender.
    to.ended = to.cut = true;
    notify(to);
    if (from) arrive_reset(*from);
  } else {
    break_off(to);
  }
}

void Network::arrive_reset(End& to) {
  if (to.broken || to.closed) return;
  to.broken = true;
  to.ended = to.shut = true;
  to.error = ECONNRESET;
  notify(to);
}

void Network::break_off(End& from) {
  const auto other = from.other.lock();
  arrive_reset(from);
  if (other) arrive_reset(*other);
}

void Network::shut(End& from) {
  if (from.shut) return;
  from.shut = true;
  if (const auto to = from.other.lock()) {
    deliver_later(to, [this](End& end) {
      if (end.ended || end.closed) return;
      end.ended = true;
      notify(end);
    });
  }
}

void Network::close(End& from) {
  if (from.closed) return;
  from.closed = true;
  const bool aborts = from.resets || !from.inbox.empty() || from.stalled || !from.connected;
  const auto to = from.other.lock();
  if (to && !from.broken) {
    if (aborts) {
      deliver_later(to, [this](End& end) { arrive_reset(end); });
    } else {
      shut(from);
    }
  }
  from.inbox.clear();
  if (to) read_from(from);
  open_.erase(&from);
}

void Network::notify(End& end) {
  if (end.closed) return;
  if (end.host != nullptr) return end.host->ready(end.fd);
  if (end.peer != nullptr) end.peer->pull();
}

void Network::read_from(End& reader) {
  const auto writer = reader.other.lock();
  if (!writer || writer->closed || !writer->wants_room) return;
  writer->wants_room = false;
  const std::shared_ptr<End> end = writer;
  world_.after(some_delay(), [this, end] {
    if (end->closed) return;
    if (end->peer != nullptr) {
      end->peer->push();
    } else {
      notify(*end);
    }
  });
}

void Network::serve(const http::Endpoint& at, std::function<void(std::unique_ptr<Peer>)> accepted) {
  servers_[at.text()] = std::move(accepted);
}

std::unique_ptr<Peer> Network::connect(const http::Endpoint& to, const http::Endpoint& from) {
  const auto listener = listeners_.find(to.text());
  if (listener == listeners_.end() || listener->second.second.empty()) return nullptr;
  auto [client, server] = pair();
  client->connected = server->connected = true;
  auto peer = std::make_unique<Peer>(*this, client);
  SimNet* host = listener->second.first;
  const std::vector<int>& fds = listener->second.second;
  const int fd = fds[connected_++ % fds.size()];
  const std::shared_ptr<End> end = server;
  world_.after(some_delay(), [this, host, fd, end, from, at = to.text()] {
    const auto still = listeners_.find(at);
    if (still == listeners_.end() || still->second.first != host || std::ranges::count(still->second.second, fd) == 0) {
      return break_off(*end);
    }
    host->descriptors_[fd].backlog.push_back({.end = end, .from = from});
    host->ready(fd);
  });
  return peer;
}

Peer::Peer(Network& network, std::shared_ptr<End> end) : network_(network), end_(std::move(end)) {
  end_->peer = this;
}

Peer::~Peer() {
  end_->peer = nullptr;
  network_.close(*end_);
}

void Peer::send(std::string_view bytes) {
  if (!open() || end_->shut) return;
  outbox_.append(bytes);
  push();
}

void Peer::push() {
  if (!open() || end_->shut) return;
  if (!outbox_.empty()) outbox_.erase(0, network_.send(*end_, outbox_));
  if (ends_ && outbox_.empty()) network_.shut(*end_);
}

void Peer::end() {
  ends_ = true;
  push();
}

void Peer::close() {
  network_.close(*end_);
}

void Peer::reset() {
  end_->resets = true;
  network_.close(*end_);
}

void Peer::set_reading(bool reading) {
  reading_ = reading;
  if (reading) pull();
}

void Peer::pull() {
  if (end_->closed) return;
  const std::shared_ptr<End> end = end_;
  if (end->broken) {
    if (on_reset && !std::exchange(told_end_, true)) on_reset();
    return;
  }
  if (reading_ && !end->inbox.empty()) {
    const std::string bytes = std::exchange(end->inbox, {});
    network_.read_from(*end);
    if (on_bytes) on_bytes(bytes);
    if (end->peer == nullptr || end->closed) return;
  }
  if (reading_ && end->ended && end->inbox.empty() && !std::exchange(told_end_, true) && on_end) on_end();
}

SimPoller::~SimPoller() {
  std::erase(net_.pollers_, this);
}

bool SimPoller::add(int fd, void* tag) {
  if (net_.fault(NetCall::add) == NetFault::no_descriptors) return false;
  tags_[fd] = tag;
  if (net_.events(fd) != 0) ready(fd);
  return true;
}

void SimPoller::remove(int fd) {
  tags_.erase(fd);
  std::erase(ready_, fd);
}

void SimPoller::ready(int fd) {
  if (!tags_.contains(fd) || std::ranges::find(ready_, fd) != ready_.end()) return;
  ready_.push_back(fd);
  if (wants_turn) wants_turn();
}

void SimPoller::wake() {
  woken_ = true;
  if (wants_turn) wants_turn();
}

int SimPoller::wait(std::span<epoll_event> room, int /*milliseconds*/) {
  Draw& draw = net_.network_.world().draw;
  std::size_t most = room.size();
  if (!net_.dead() && draw.percent(net_.network_.weather().few_events)) most = 1;
  std::size_t count = 0;
  if (woken_) {
    room[count] = {};
    room[count].events = EPOLLIN;
    room[count++].data.ptr = nullptr;
  }
  while (!ready_.empty() && count < most) {
    const std::size_t at = ready_.size() > 1 ? draw.below(ready_.size()) : 0;
    const int fd = ready_[at];
    ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(at));
    const std::uint32_t events = net_.events(fd);
    if (events == 0) continue;
    room[count].events = events;
    room[count++].data.ptr = tags_[fd];
  }
  return static_cast<int>(count);
}

SimNet::~SimNet() {
  for (auto& [at, listener] : network_.listeners_) {
    if (listener.first == this) listener = {nullptr, {}};
  }
  for (auto& [fd, descriptor] : descriptors_) {
    if (descriptor.end) descriptor.end->host = nullptr;
  }
}

int SimNet::listen(const http::Endpoint& at) {
  const std::string text = at.text();
  const int fd = put({.end = nullptr, .backlog = {}, .listens_at = text});
  auto& listener = network_.listeners_[text];
  if (listener.first != this) listener = {this, {}};
  listener.second.push_back(fd);
  return fd;
}

int SimNet::put(Descriptor descriptor) {
  const int fd = next_fd_++;
  if (descriptor.end) {
    descriptor.end->host = this;
    descriptor.end->fd = fd;
  }
  descriptors_[fd] = std::move(descriptor);
  return fd;
}

NetFault SimNet::fault(NetCall call) {
  if (dead_) return NetFault::none;
  ++calls_;
  return faults ? faults(call) : NetFault::none;
}

int SimNet::fail(int error) {
  errno = error;
  return -1;
}

End* SimNet::end_of(int fd) {
  const auto at = descriptors_.find(fd);
  return at == descriptors_.end() ? nullptr : at->second.end.get();
}

void SimNet::ready(int fd) {
  for (SimPoller* poller : pollers_) poller->ready(fd);
}

void SimNet::ready_later(int fd) {
  const auto at = descriptors_.find(fd);
  if (at == descriptors_.end()) return;
  const std::weak_ptr<End> end = at->second.end;
  if (at->second.end) {
    network_.world().after(1ms, [end] {
      const auto still = end.lock();
      if (still && !still->closed && still->host != nullptr) still->host->ready(still->fd);
    });
    return;
  }
  network_.world().after(1ms, [this, network = &network_, text = at->second.listens_at, fd] {
    const auto listener = network->listeners_.find(text);
    if (listener != network->listeners_.end() && listener->second.first == this) ready(fd);
  });
}

std::uint32_t SimNet::events(int fd) const {
  if (dead_) return gone;
  const auto at = descriptors_.find(fd);
  if (at == descriptors_.end()) return 0;
  if (!at->second.end) return at->second.backlog.empty() ? 0 : EPOLLIN;
  const End& end = *at->second.end;
  if (end.broken) return gone;
  if (!end.connected) return 0;
  std::uint32_t events = 0;
  if (!end.inbox.empty() || end.ended) events |= EPOLLIN;
  if (network_.room(end) > 0 || end.shut) events |= EPOLLOUT;
  if (end.ended) events |= EPOLLRDHUP;
  if (end.ended && end.shut) events |= EPOLLHUP;
  return events;
}

void SimNet::kill() {
  for (auto& [at, listener] : network_.listeners_) {
    if (listener.first == this) listener = {nullptr, {}};
  }
  for (auto& [fd, descriptor] : descriptors_) {
    for (const Waiting& waiting : descriptor.backlog) network_.break_off(*waiting.end);
    descriptor.backlog.clear();
    if (!descriptor.end) continue;
    if (tap.closed) tap.closed(descriptor.end->link);
    network_.close(*descriptor.end);
  }
  dead_ = true;
  for (SimPoller* poller : pollers_) {
    for (const auto& [fd, descriptor] : descriptors_) poller->ready(fd);
  }
}

std::unique_ptr<http::Poller> SimNet::poller() {
  auto poller = std::make_unique<SimPoller>(*this);
  pollers_.push_back(poller.get());
  return poller;
}

std::chrono::nanoseconds SimNet::now() const {
  return network_.world_.now().time_since_epoch() + ahead_;
}

int SimNet::accept(int listener, sockaddr_storage& peer) {
  if (dead_) return fail(EAGAIN);
  Descriptor& descriptor = descriptors_.at(listener);
  switch (fault(NetCall::accept)) {
    case NetFault::interrupted: return fail(EINTR);
    case NetFault::no_descriptors: return fail(EMFILE);
    case NetFault::again:
      if (!descriptor.backlog.empty()) ready_later(listener);
      return fail(EAGAIN);
    case NetFault::reset:
    case NetFault::brief:
      if (descriptor.backlog.empty()) return fail(EAGAIN);
      network_.break_off(*descriptor.backlog.front().end);
      descriptor.backlog.erase(descriptor.backlog.begin());
      return fail(ECONNABORTED);
    case NetFault::none: break;
  }
  if (descriptor.backlog.empty()) return fail(EAGAIN);
  if (descriptors_.size() >= most_descriptors) return fail(EMFILE);
  const Waiting waiting = descriptor.backlog.front();
  descriptor.backlog.erase(descriptor.backlog.begin());
  peer = waiting.from.address;
  const int fd = put({.end = waiting.end, .backlog = {}, .listens_at = {}});
  if (tap.accepted) tap.accepted(waiting.end->link);
  return fd;
}

int SimNet::connect(const http::Endpoint& endpoint) {
  if (dead_) return fail(ECONNREFUSED);
  switch (fault(NetCall::connect)) {
    case NetFault::no_descriptors: return fail(EMFILE);
    case NetFault::again: return fail(EADDRNOTAVAIL);
    case NetFault::reset: return fail(ECONNREFUSED);
    case NetFault::interrupted:
    case NetFault::brief:
    case NetFault::none: break;
  }
  if (descriptors_.size() >= most_descriptors) return fail(EMFILE);
  Draw& draw = network_.world_.draw;
  const std::string to = endpoint.text();
  const bool refused = draw.percent(network_.weather_.refuses);
  const bool stalls = draw.percent(network_.weather_.stalls);
  auto [near, far] = network_.pair();
  near->stalled = stalls;
  const int fd = put({.end = near, .backlog = {}, .listens_at = {}});
  if (stalls) return fd;
  network_.world_.after(network_.some_delay(), [network = &network_, near, far, to, refused] {
    if (near->closed) return;
    const auto server = network->servers_.find(to);
    if (refused || server == network->servers_.end() || !server->second) {
      network->arrive_reset(*near);
      near->error = ECONNREFUSED;
      return;
    }
    near->connected = far->connected = true;
    server->second(std::make_unique<Peer>(*network, far));
    network->notify(*near);
  });
  return fd;
}

int SimNet::take_error(int fd) {
  End* end = end_of(fd);
  if (dead_ || end == nullptr) return ECONNRESET;
  return std::exchange(end->error, 0);
}

ssize_t SimNet::look(int fd, std::span<char> room, bool take, NetCall call) {
  if (dead_) return fail(ECONNRESET);
  End* end = end_of(fd);
  ONCE_ASSERT(end != nullptr);
  std::size_t most = room.size();
  switch (fault(call)) {
    case NetFault::again: ready_later(fd); return fail(EAGAIN);
    case NetFault::interrupted: return fail(EINTR);
    case NetFault::reset:
      network_.break_off(*end);
      end->inbox.clear();
      break;
    case NetFault::brief:
      most = 1;
      if (end->inbox.size() > 1) ready_later(fd);
      break;
    case NetFault::no_descriptors:
    case NetFault::none: break;
  }
  if (!end->inbox.empty()) {
    const std::size_t got = std::min(most, end->inbox.size());
    std::memcpy(room.data(), end->inbox.data(), got);
    if (take) {
      end->inbox.erase(0, got);
      network_.read_from(*end);
      if (tap.received) tap.received(end->link, {room.data(), got});
    }
    return static_cast<ssize_t>(got);
  }
  if (end->error != 0) return fail(std::exchange(end->error, 0));
  if (!end->ended) return fail(EAGAIN);
  if (take && !end->broken && tap.received_end) tap.received_end(end->link);
  return 0;
}

ssize_t SimNet::receive(int fd, std::span<char> room) {
  return look(fd, room, true, NetCall::receive);
}

ssize_t SimNet::peek(int fd, std::span<char> room) {
  return look(fd, room, false, NetCall::peek);
}

ssize_t SimNet::send(int fd, std::span<const iovec> pieces) {
  if (dead_) return fail(EPIPE);
  End* end = end_of(fd);
  ONCE_ASSERT(end != nullptr);
  std::string bytes;
  for (const iovec& piece : pieces) bytes.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
  switch (fault(NetCall::send)) {
    case NetFault::again: ready_later(fd); return fail(EAGAIN);
    case NetFault::interrupted: return fail(EINTR);
    case NetFault::reset: network_.break_off(*end); break;
    case NetFault::brief: bytes.resize(std::min<std::size_t>(bytes.size(), 1)); break;
    case NetFault::no_descriptors:
    case NetFault::none: break;
  }
  if (end->broken || end->shut) return fail(end->error != 0 ? std::exchange(end->error, 0) : EPIPE);
  if (!end->connected) return fail(EAGAIN);
  const std::size_t sent = network_.send(*end, bytes);
  if (sent == 0 && !bytes.empty()) return fail(EAGAIN);
  if (tap.sent) tap.sent(end->link, std::string_view(bytes).substr(0, sent));
  return static_cast<ssize_t>(sent);
}

void SimNet::shut_down_writing(int fd) {
  End* end = end_of(fd);
  if (end != nullptr && !dead_) network_.shut(*end);
}

void SimNet::reset_on_close(int fd) {
  if (End* end = end_of(fd)) end->resets = true;
}

void SimNet::close(int fd) {
  const auto at = descriptors_.find(fd);
  ONCE_ASSERT(at != descriptors_.end());
  for (SimPoller* poller : pollers_) poller->remove(fd);
  const Descriptor descriptor = std::move(at->second);
  descriptors_.erase(at);
  if (dead_) return;
  if (descriptor.end) {
    if (tap.closed) tap.closed(descriptor.end->link);
    network_.close(*descriptor.end);
    descriptor.end->host = nullptr;
  }
  if (descriptor.listens_at.empty()) return;
  std::erase(network_.listeners_[descriptor.listens_at].second, fd);
  for (const Waiting& waiting : descriptor.backlog) network_.break_off(*waiting.end);
}

int SimNet::open_spare() {
  if (dead_ || descriptors_.size() >= most_descriptors) return fail(EMFILE);
  return put({});
}

LoopDriver::LoopDriver(World& world, http::Loop& loop, SimPoller& poller)
    : world_(world), loop_(loop), poller_(poller) {
  state_->driver = this;
  poller_.wants_turn = [this] { ask_for_turn(0ms); };
  ask_for_turn(0ms);
}

LoopDriver::~LoopDriver() {
  state_->let_go = true;
  poller_.wants_turn = nullptr;
}

void LoopDriver::ask_for_turn(Duration after) {
  if (state_->let_go || stopped_ || in_turn_) return;
  const Time at = std::max(world_.now() + after, paused_until_);
  if (next_ && *next_ <= at) return;
  next_ = at;
  const std::uint64_t number = ++asked_;
  world_.after(at - world_.now(), [state = state_, number] {
    if (!state->let_go && state->driver->asked_ == number) state->driver->turn();
  });
}

void LoopDriver::turn() {
  next_.reset();
  if (world_.now() < paused_until_) return ask_for_turn(0ms);
  in_turn_ = true;
  stopped_ = !loop_.run_ready();
  in_turn_ = false;
  if (after_turn) after_turn();
  const int wait = loop_.wait_milliseconds();
  if (poller_.has_ready()) {
    ask_for_turn(0ms);
  } else if (wait >= 0) {
    ask_for_turn(Duration(wait));
  }
}

}  // namespace once::sim
