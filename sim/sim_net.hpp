// The simulated network as one process sees it, behind the same port as the kernel's (http::Net). Readiness is reported
// in any order, and every call can be made to fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/net.hpp"
#include "sim/wires.hpp"

namespace once::sim {

enum class NetCall : std::uint8_t { accept, connect, receive, peek, send, add };
enum class NetFault : std::uint8_t {
  none,
  again,           // EAGAIN although the call could succeed; an event follows
  interrupted,     // EINTR
  brief,           // only one byte is moved
  reset,           // the connection is gone
  no_descriptors,  // EMFILE; for add(): no other descriptor can be watched
};
std::string_view name_of(NetCall call);
std::string_view name_of(NetFault fault);

// Edge-triggered readiness for one loop: each change of a descriptor is reported once.
class SimPoller final : public http::Poller {
 public:
  explicit SimPoller(SimNet& net) : net_(net) {}
  ~SimPoller() override;

  bool add(int fd, void* tag) override;
  void remove(int fd) override;
  int wait(std::span<epoll_event> room, int milliseconds) override;
  void wake() override;
  void take_wake() override { woken_ = false; }

  void ready(int fd);
  bool has_ready() const { return woken_ || !ready_.empty(); }
  bool watches(int fd) const { return tags_.contains(fd); }

  std::function<void()> wants_turn;

 private:
  SimNet& net_;
  std::map<int, void*> tags_;
  std::vector<int> ready_;
  bool woken_ = false;
};

// The network of one process.
class SimNet final : public http::Net {
 public:
  explicit SimNet(Network& network) : network_(network) {}
  SimNet(const SimNet&) = delete;
  SimNet& operator=(const SimNet&) = delete;
  ~SimNet() override;

  // A listener for one loop. Several at one address share the connections.
  int listen(const http::Endpoint& at);

  // Called before each call; decides which ones fail.
  std::function<NetFault(NetCall)> faults;
  // Observes the bytes that the process sends and receives, and the ends of its connections, by connection number.
  struct Tap {
    std::function<void(std::uint64_t link)> accepted;
    std::function<void(std::uint64_t link, std::string_view)> sent;
    std::function<void(std::uint64_t link, std::string_view)> received;
    std::function<void(std::uint64_t link)> received_end;
    std::function<void(std::uint64_t link)> closed;
  } tap;

  Network& network() { return network_; }

  std::size_t most_descriptors = 1'000'000;
  std::size_t open_descriptors() const { return descriptors_.size(); }
  std::uint64_t calls() const { return calls_; }

  // The process was killed: its connections end, and every later call fails.
  void kill();
  bool dead() const { return dead_; }
  // Advances time for a process that is run to its end.
  void advance(Duration by) { ahead_ += by; }
  Duration ahead() const { return ahead_; }

  std::unique_ptr<http::Poller> poller() override;
  const std::vector<SimPoller*>& pollers() const { return pollers_; }
  std::chrono::nanoseconds now() const override;
  int accept(int listener, sockaddr_storage& peer) override;
  int connect(const http::Endpoint& endpoint) override;
  int take_error(int fd) override;
  ssize_t receive(int fd, std::span<char> room) override;
  ssize_t peek(int fd, std::span<char> room) override;
  ssize_t send(int fd, std::span<const iovec> pieces) override;
  void shut_down_writing(int fd) override;
  void reset_on_close(int fd) override;
  void end_on_close(int fd) override;
  void close(int fd) override;
  int open_spare() override;

 private:
  friend class Network;
  friend class SimPoller;

  struct Waiting {
    std::shared_ptr<End> end;
    http::Endpoint from;
  };
  struct Descriptor {
    std::shared_ptr<End> end;      // of a connection
    std::vector<Waiting> backlog;  // of a listener
    std::string listens_at;
  };

  NetFault fault(NetCall call);
  int fail(int error);
  // Reports readiness later, as if it was not ready yet.
  void ready_later(int fd);
  void ready(int fd);
  std::uint32_t events(int fd) const;
  int put(Descriptor descriptor);
  End* end_of(int fd);
  ssize_t look(int fd, std::span<char> room, bool take, NetCall call);

  Network& network_;
  std::map<int, Descriptor> descriptors_;
  std::vector<SimPoller*> pollers_;
  int next_fd_ = 100'000;  // never used by the kernel
  std::uint64_t calls_ = 0;
  bool dead_ = false;
  Duration ahead_{};
};

}  // namespace once::sim
