#include "store/redis/link.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <poll.h>

namespace once::redis {

namespace {

constexpr std::size_t read_size = 65'536;
constexpr std::size_t most_kept = std::size_t{1} << 20U;  // larger buffers are freed after a batch of large outcomes
constexpr Duration longest = std::chrono::hours(24);
constexpr int keepalive_idle_s = 30;
constexpr int most_elements = 65'536;  // CLUSTER SLOTS has at most a quarter of this

// hiredis would allocate memory for an array's announced length before its elements arrive: refuse large ones.
void* make_array(const redisReadTask* task, int elements) {
  const auto* const original = static_cast<const redisReplyObjectFunctions*>(task->privdata);
  return elements > most_elements ? nullptr : original->createArray(task, elements);
}

std::string error_text(int number) {
  return std::generic_category().message(number);
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

Result<Descriptor> connect_address(const addrinfo& address, Deadline deadline) {
  const auto failed = [](int number) {
    return std::unexpected(
        Error{.source = ErrorSource::store, .retryable = Retryable::yes, .detail = error_text(number)});
  };
  Descriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.open()) return failed(errno);
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPIDLE, &keepalive_idle_s, sizeof keepalive_idle_s);
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return socket;
  if (errno != EINPROGRESS) return failed(errno);
  pollfd waiting{.fd = socket.get(), .events = POLLOUT, .revents = 0};
  int ready = 0;
  do {
    ready = ::poll(&waiting, 1, deadline.milliseconds_left());
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) return failed(ETIMEDOUT);
  int problem = 0;
  socklen_t size = sizeof problem;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &problem, &size) != 0) return failed(errno);
  if (problem != 0) return failed(problem);
  return socket;
}

// Name resolution has its own time limits; ours begin after it.
Result<Descriptor> connect_host(const StoreHost& host, Deadline deadline) {
  const auto failed = [&](std::string_view why) {
    return std::unexpected(Error{.source = ErrorSource::store,
                                 .retryable = Retryable::yes,
                                 .detail = fmt::format("cannot connect to Redis at {}: {}", name_of(host), why)});
  };
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.name.c_str(), std::to_string(host.port).c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, FreeAddresses> addresses(found);
  if (status != 0) return failed(::gai_strerror(status));
  std::size_t left = 0;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) ++left;
  std::string why = "no address";
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next, --left) {
    auto socket = connect_address(*address, deadline.fraction(left));
    if (socket) return socket;
    why = socket.error().detail;
  }
  return failed(why);
}

}  // namespace

Deadline Deadline::after(Duration time) {
  return Deadline(monotonic_now() + std::clamp(time, Duration::zero(), longest));
}

int Deadline::milliseconds_left() const {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - monotonic_now());
  return static_cast<int>(std::clamp(left, Duration::zero(), longest).count());
}

Deadline Deadline::fraction(std::size_t parts) const {
  const std::chrono::nanoseconds now = monotonic_now();
  return Deadline(now + (at_ - now) / static_cast<std::int64_t>(parts));
}

Link::Link(std::string name, Descriptor socket)
    : name_(std::move(name)), socket_(std::move(socket)), reader_(redisReaderCreate()), in_(read_size, '\0') {
  if (!reader_) return;
  functions_ = *reader_->fn;
  functions_.createArray = make_array;
  reader_->privdata = std::exchange(reader_->fn, &functions_);
}

Result<std::unique_ptr<Link>> Link::connect(const StoreHost& host, SSL_CTX* tls, Deadline deadline) {
  auto socket = connect_host(host, deadline);
  if (!socket) return std::unexpected(std::move(socket.error()));
  std::unique_ptr<Link> link(new Link(name_of(host), std::move(*socket)));
  if (!link->reader_) return link->lost("no memory");
  if (tls != nullptr) {
    if (auto shaken = link->shake_hands(*tls, host.name, deadline); !shaken) {
      return std::unexpected(std::move(shaken.error()));
    }
  }
  return link;
}

std::unexpected<Error> Link::lost(std::string_view why) const {
  return std::unexpected(Error{
      .source = ErrorSource::store, .retryable = Retryable::yes, .detail = fmt::format("Redis at {}: {}", name_, why)});
}

Result<void> Link::shake_hands(SSL_CTX& context, const std::string& host, Deadline deadline) {
  const auto distrusted = [&](Error error) {
    error.detail = fmt::format("Redis at {}: {}", name_, error.detail);
    return std::unexpected(std::move(error));
  };
  auto tls = Tls::make(context, host);
  if (!tls) return distrusted(std::move(tls.error()));
  std::size_t received = 0;
  while (true) {
    const auto step = (*tls)->shake_hands(std::string_view(in_).substr(0, received), wire_);
    if (!step) {
      std::ignore = write_some();  // the alert tells the server the reason; it may fail
      return distrusted(step.error());
    }
    if (auto written = write_some(); !written) return written;
    if (*step == Tls::Handshake::done && sent_ == wire_.size()) break;
    if (deadline.passed()) return lost("no TLS handshake in time");
    if (auto ready = wait(deadline); !ready) return ready;
    const auto size = receive();
    if (!size) return std::unexpected(size.error());
    received = *size;
  }
  tls_ = std::move(*tls);
  return {};
}

std::size_t Link::append_later() {
  commands_ += later_;
  later_.clear();
  return std::exchange(later_count_, 0);
}

Result<void> Link::send() {
  if (sent_ == wire_.size()) {
    if (wire_.capacity() > most_kept) wire_ = std::string();
    wire_.clear();
    sent_ = 0;
  }
  if (tls_) {
    if (auto done = tls_->encrypt(commands_, wire_); !done) return lost(done.error().detail);
  } else if (wire_.empty()) {
    wire_.swap(commands_);
  } else {
    wire_ += commands_;
  }
  commands_.clear();
  return write_some();
}

Result<void> Link::write_some() {
  while (sent_ < wire_.size()) {
    const ssize_t size = ::send(socket_.get(), wire_.data() + sent_, wire_.size() - sent_, MSG_NOSIGNAL);
    if (size >= 0) {
      sent_ += static_cast<std::size_t>(size);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return {};
    } else if (errno != EINTR) {
      return lost(error_text(errno));
    }
  }
  return {};
}

Result<void> Link::wait(Deadline deadline) {
  const short events = sent_ < wire_.size() ? POLLIN | POLLOUT : POLLIN;
  pollfd waiting{.fd = socket_.get(), .events = events, .revents = 0};
  int ready = 0;
  do {
    ready = ::poll(&waiting, 1, deadline.milliseconds_left());
  } while (ready < 0 && errno == EINTR);
  if (ready < 0) return lost(error_text(errno));
  if (ready == 0) return lost("no answer in time");
  return {};
}

Result<std::size_t> Link::receive() {
  while (true) {
    const ssize_t size = ::recv(socket_.get(), in_.data(), in_.size(), 0);
    if (size > 0) return static_cast<std::size_t>(size);
    if (size == 0) return lost("closed by the server");
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) return lost(error_text(errno));
  }
}

Result<void> Link::read_some() {
  const auto size = receive();
  if (!size) return std::unexpected(size.error());
  if (*size == 0) return {};
  const std::string_view bytes = std::string_view(in_).substr(0, *size);
  if (!tls_) {
    if (redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != REDIS_OK) return lost("no memory");
    return {};
  }
  std::string plain;
  if (auto done = tls_->decrypt(bytes, plain, wire_); !done) return lost(done.error().detail);
  if (redisReaderFeed(reader_.get(), plain.data(), plain.size()) != REDIS_OK) return lost("no memory");
  return {};
}

Result<std::optional<Reply>> Link::parsed() {
  void* reply = nullptr;
  if (redisReaderGetReply(reader_.get(), &reply) != REDIS_OK) {
    return lost(fmt::format("a reply that is not Redis protocol: {}", static_cast<const char*>(reader_->errstr)));
  }
  if (reply == nullptr) return std::nullopt;
  return Reply(static_cast<redisReply*>(reply));
}

Result<Reply> Link::reply(Deadline deadline) {
  while (true) {
    auto found = parsed();
    if (!found) return std::unexpected(std::move(found.error()));
    if (*found) return std::move(**found);
    if (auto ready = wait(deadline); !ready) return std::unexpected(std::move(ready.error()));
    if (auto written = write_some(); !written) return std::unexpected(std::move(written.error()));
    if (auto read = read_some(); !read) return std::unexpected(std::move(read.error()));
  }
}

Result<std::optional<Reply>> Link::reply_if_any() {
  auto found = parsed();
  if (!found || *found) return found;
  if (auto written = write_some(); !written) return std::unexpected(std::move(written.error()));
  if (auto read = read_some(); !read) return std::unexpected(std::move(read.error()));
  return parsed();
}

bool Link::quiet() const {
  pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, 0) == 0;
}

}  // namespace once::redis
