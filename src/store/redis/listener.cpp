#include "store/redis/listener.hpp"

#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <utility>

#include <poll.h>

#include "base/assert.hpp"
#include "base/backoff.hpp"

namespace once::redis {

namespace {

constexpr Duration first_listen_pause = std::chrono::milliseconds(50);
constexpr Duration longest_pause = std::chrono::milliseconds(2000);
// A connection that is silent for this long is pinged, and dropped after as long again.
constexpr Duration silence = std::chrono::seconds(10);

std::string channel_of(const Context& context) {
  return context.options.prefix + "ended";
}

}  // namespace

Listener::Listener(Context& context, Directory& directory, Notify notify)
    : context_(context),
      directory_(directory),
      notify_(std::move(notify)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { loop(); }) {
  pthread_setname_np(thread_.native_handle(), "once-redis-ends");
}

Listener::~Listener() {
  const std::uint64_t one = 1;
  ONCE_ASSERT(::write(stop_.get(), &one, sizeof one) == sizeof one);
  thread_.join();
}

Listener::Woken Listener::wait(int descriptor, Duration most) const {
  // poll(2) ignores a negative descriptor.
  std::array<pollfd, 2> waiting = {pollfd{.fd = stop_.get(), .events = POLLIN, .revents = 0},
                                   pollfd{.fd = descriptor, .events = POLLIN, .revents = 0}};
  ::poll(waiting.data(), waiting.size(), static_cast<int>(most.count()));
  if (waiting[0].revents != 0) return Woken::by_the_end;
  return waiting[1].revents != 0 ? Woken::by_data : Woken::by_time;
}

void Listener::loop() {
  Backoff pauses(first_listen_pause, longest_pause);
  bool told_of_loss = false;
  while (true) {
    auto link = subscribe();
    if (link) {
      pauses.reset();
      told_of_loss = false;
    }
    const auto ended = link ? listen(**link) : Result<void>(std::unexpected(link.error()));
    if (ended) return;
    if (!std::exchange(told_of_loss, true)) {
      context_.log.warn("no notifications from Redis; waiting requests poll", {{"error", ended.error().detail}});
    }
    if (wait(-1, pauses.next()) == Woken::by_the_end) return;
  }
}

Result<std::unique_ptr<Link>> Listener::subscribe() {
  if (!directory_.now()) {
    if (auto found = directory_.find_again(nullptr, Deadline::after(context_.settings.timeout)); !found) {
      return std::unexpected(std::move(found.error()));
    }
  }
  const std::shared_ptr<const Map> map = directory_.now();
  const Node& node = *map->nodes[next_node_++ % map->nodes.size()];
  const Deadline deadline = Deadline::after(context_.settings.connect_timeout);
  auto link = greet(context_, node.host(), context_.options.login, deadline);
  if (!link) {
    const Deadline later = Deadline::after(context_.settings.timeout);
    if (auto found = directory_.find_again(map.get(), later, Hint{.ask_last = {node.host()}}); !found) {
      return std::unexpected(std::move(found.error()));
    }
    return link;
  }
  const auto subscribed = ask(**link, {"SUBSCRIBE", channel_of(context_)}, deadline);
  if (!subscribed) return std::unexpected(subscribed.error());
  return link;
}

Result<void> Listener::listen(Link& link) {
  bool asked = false;
  while (true) {
    while (true) {
      auto message = link.reply_if_any();
      if (!message) return std::unexpected(std::move(message.error()));
      if (!*message) break;
      asked = false;
      hear(***message);
    }
    switch (wait(link.descriptor(), silence)) {
      case Woken::by_data: break;
      case Woken::by_the_end: return {};
      case Woken::by_time:
        if (std::exchange(asked, true)) {
          return std::unexpected(
              Error{.source = ErrorSource::store, .retryable = Retryable::yes, .detail = link.name() + " went silent"});
        }
        append_command(link.commands(), {"PING"});
        if (auto sent = link.send(); !sent) return sent;
    }
  }
}

void Listener::hear(const redisReply& message) {
  if (!is_array(message) || message.elements != 3 || text_of(*message.element[0]) != "message") return;
  const auto bytes = from_hex(text_of(*message.element[2]));
  if (!bytes || bytes->size() != OperationId::size) return;
  OperationId id;
  std::copy_n(bytes->begin(), OperationId::size, id.bytes.begin());
  context_.counts.notified.fetch_add(1, std::memory_order_relaxed);
  notify_(id);
}

}  // namespace once::redis
