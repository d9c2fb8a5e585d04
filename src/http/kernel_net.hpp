// The network of the kernel: sockets and epoll.
#pragma once

#include <memory>
#include <span>

#include "http/net.hpp"

namespace once::http {

// Stateless, so all loops of the process share one.
class KernelNet final : public Net {
 public:
  std::unique_ptr<Poller> poller() override;
  std::chrono::nanoseconds now() const override;

  int accept(int listener, sockaddr_storage& peer) override;
  int connect(const Endpoint& endpoint) override;
  int take_error(int fd) override;
  ssize_t receive(int fd, std::span<char> room) override;
  ssize_t peek(int fd, std::span<char> room) override;
  ssize_t send(int fd, std::span<const iovec> pieces) override;
  void shut_down_writing(int fd) override;
  void reset_on_close(int fd) override;
  void end_on_close(int fd) override;
  void close(int fd) override;
  int open_spare() override;
};

KernelNet& kernel_net();

}  // namespace once::http
