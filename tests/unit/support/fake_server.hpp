// A server that does only what a test tells it to. The kernel makes its connections; nothing of it runs by itself.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/task.hpp"
#include "http/addresses.hpp"
#include "http/endpoint.hpp"
#include "http/upstream.hpp"

namespace once::http {

inline constexpr std::string_view fine = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

class FakeServer {
 public:
  explicit FakeServer(std::string_view address = "127.0.0.1:0") : endpoint_(*resolve_listener(address)) { listen(); }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;
  ~FakeServer() {
    stop();
    for (const int fd : connections_) ::close(fd);
  }

  const Endpoint& endpoint() const { return endpoint_; }
  Endpoints endpoints() const { return {endpoint_}; }

  // Where it was before.
  void listen() {
    const auto listeners = listen_on(endpoint_, 1);
    ASSERT_TRUE(listeners.has_value()) << listeners.error().detail;
    listener_ = listeners->front();
    endpoint_ = bound_endpoint(listener_);
    ::fcntl(listener_, F_SETFL, 0);
  }
  // From now on connections are refused.
  void stop() {
    if (listener_ >= 0) ::close(listener_);
    listener_ = -1;
  }

  // The next connection that was made to it.
  int accept() {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    EXPECT_GE(fd, 0);
    connections_.push_back(fd);
    return fd;
  }
  // Whether somebody is there whom accept() would find.
  bool called() const {
    ::fcntl(listener_, F_SETFL, O_NONBLOCK);
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    ::fcntl(listener_, F_SETFL, 0);
    if (fd >= 0) ::close(fd);
    return fd >= 0;
  }

 private:
  Endpoint endpoint_;
  int listener_ = -1;
  std::vector<int> connections_;
};

inline bool closed_by_peer(int fd) {
  char byte = 0;
  return ::recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

// A whole response to a request that went out, after which the connection may be given back.
inline Task<void> answer_fully(UpstreamConnection& connection, int far, std::string_view response = fine) {
  EXPECT_EQ(::send(far, response.data(), response.size(), MSG_NOSIGNAL), static_cast<ssize_t>(response.size()));
  connection.request_written();
  const auto deadline = connection.socket().loop().now() + std::chrono::seconds(20);
  const auto read = co_await connection.read_head(Method::get, deadline);
  EXPECT_EQ(read, UpstreamConnection::HeadRead::ok);
  const auto end = connection.ready();
  EXPECT_TRUE(end && end->kind == BodyChunk::Kind::end);
}

}  // namespace once::http
