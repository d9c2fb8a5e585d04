#include "sim/wires.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.hpp"
#include "sim/sim_net.hpp"

namespace once::sim {

using namespace std::chrono_literals;

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
  if (!to || to->closed || to->broken) return weather_.capacity;  // accepted, and answered with a reset
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
  // The receiving end is closed, so the sender gets a reset.
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
    // A proxy in between has closed this direction in order, and accepts nothing more from the sender.
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
    if (on_reset && !std::exchange(end_reported_, true)) on_reset();
    return;
  }
  if (reading_ && !end->inbox.empty()) {
    const std::string bytes = std::exchange(end->inbox, {});
    network_.read_from(*end);
    if (on_bytes) on_bytes(bytes);
    if (end->peer == nullptr || end->closed) return;
  }
  if (reading_ && end->ended && end->inbox.empty() && !std::exchange(end_reported_, true) && on_end) on_end();
}

}  // namespace once::sim
