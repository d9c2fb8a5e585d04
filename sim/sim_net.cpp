#include "sim/sim_net.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.hpp"

namespace once::sim {

using namespace std::chrono_literals;

namespace {

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

void SimNet::end_on_close(int fd) {
  if (End* end = end_of(fd)) end->resets = false;
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

}  // namespace once::sim
