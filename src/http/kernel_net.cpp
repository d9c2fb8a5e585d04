#include "http/kernel_net.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/descriptor.hpp"

namespace once::http {

namespace {

// Limits the bytes that wait in the kernel for a slow reader: they would be unlimited memory, and writes would seem
// complete.
constexpr int most_unsent = 128 << 10;

void set_no_delay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// The C library's recv and send are cancellation points, which cost extra work per call in a process with threads.
// Threads are never cancelled here.
ssize_t receive_from(int fd, std::span<char> room, int flags) {
  return ::syscall(SYS_recvfrom, fd, room.data(), room.size(), flags, nullptr, nullptr);
}

class KernelPoller final : public Poller {
 public:
  KernelPoller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    ONCE_ASSERT(epoll_.open() && wake_.open());
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = nullptr;
    ONCE_ASSERT(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) == 0);
  }

  bool add(int fd, void* tag) override {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.ptr = tag;
    return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }
  void remove(int fd) override { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

  int wait(std::span<epoll_event> room, int milliseconds) override {
    return ::epoll_wait(epoll_.get(), room.data(), static_cast<int>(room.size()), milliseconds);
  }
  void wake() override {
    const std::uint64_t one = 1;
    ONCE_ASSERT(::write(wake_.get(), &one, sizeof one) == sizeof one);
  }
  void take_wake() override {
    std::uint64_t count = 0;
    ONCE_ASSERT(::read(wake_.get(), &count, sizeof count) == sizeof count);
  }

 private:
  Descriptor epoll_;
  Descriptor wake_;
};

}  // namespace

KernelNet& kernel_net() {
  static KernelNet net;
  return net;
}

std::unique_ptr<Poller> KernelNet::poller() {
  return std::make_unique<KernelPoller>();
}

std::chrono::nanoseconds KernelNet::now() const {
  return monotonic_now();
}

int KernelNet::accept(int listener, sockaddr_storage& peer) {
  socklen_t size = sizeof peer;
  const int fd = ::accept4(listener, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return fd;
  set_no_delay(fd);
  ::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most_unsent, sizeof most_unsent);
  return fd;
}

int KernelNet::connect(const Endpoint& endpoint) {
  Descriptor made(::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made.open()) return -1;
  if (endpoint.address.ss_family != AF_UNIX) set_no_delay(made.get());
  const auto* to = reinterpret_cast<const sockaddr*>(&endpoint.address);
  if (::connect(made.get(), to, endpoint.size) == 0 || errno == EINPROGRESS) return made.release();
  const int error = errno;
  made = Descriptor();
  errno = error;
  return -1;
}

int KernelNet::take_error(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 ? errno : error;
}

ssize_t KernelNet::receive(int fd, std::span<char> room) {
  return receive_from(fd, room, 0);
}

ssize_t KernelNet::peek(int fd, std::span<char> room) {
  return receive_from(fd, room, MSG_PEEK | MSG_DONTWAIT);
}

ssize_t KernelNet::send(int fd, std::span<const iovec> pieces) {
  if (pieces.size() == 1) {
    const iovec& piece = pieces.front();
    return ::syscall(SYS_sendto, fd, piece.iov_base, piece.iov_len, MSG_NOSIGNAL, nullptr, 0);
  }
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  return ::sendmsg(fd, &message, MSG_NOSIGNAL);
}

void KernelNet::shut_down_writing(int fd) {
  ::shutdown(fd, SHUT_WR);
}

void KernelNet::reset_on_close(int fd) {
  const linger reset{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

void KernelNet::end_on_close(int fd) {
  const linger in_order{.l_onoff = 0, .l_linger = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &in_order, sizeof in_order);
}

void KernelNet::close(int fd) {
  ::close(fd);
}

int KernelNet::open_spare() {
  return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

Result<int> start_connect(Net& net, const Endpoint& endpoint) {
  const int fd = net.connect(endpoint);
  if (fd >= 0) return fd;
  const int error = errno;
  return std::unexpected(Error{.source = ErrorSource::system,
                               .retryable = is_out_of_descriptors(error) ? Retryable::yes : Retryable::no,
                               .detail = fmt::format("cannot connect to {}: {}", endpoint.text(), error_text(error))});
}

}  // namespace once::http
