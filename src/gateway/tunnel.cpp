#include "gateway/tunnel.hpp"

#include <chrono>
#include <coroutine>

namespace once {

namespace {

struct Shared {
  std::chrono::nanoseconds last_moved{};
  int running = 2;
  std::coroutine_handle<> done;

  bool await_ready() const noexcept { return running == 0; }
  void await_suspend(std::coroutine_handle<> caller) { done = caller; }
  void await_resume() const noexcept {}
};

Task<bool> copy_until_end(http::Socket& from, http::Buffer& buffer, http::Socket& to, Duration idle_limit,
                          Shared& shared) {
  while (true) {
    if (!buffer.empty()) {
      const http::IoResult sent = co_await to.write_all(buffer.unread(), idle_limit);
      if (sent.status != http::Io::ok) co_return false;
      buffer.consume(buffer.unread().size());
      shared.last_moved = from.loop().now();
    }
    const http::IoResult got = co_await from.read_some(buffer.room(), idle_limit);
    if (got.status == http::Io::end) {
      to.shut_down_writing();
      co_return true;
    }
    // Silence in one direction is no reason to end while the other one moves.
    if (got.status == http::Io::timed_out && from.loop().now() - shared.last_moved < idle_limit) continue;
    if (got.status == http::Io::failed) to.end_unannounced();
    if (got.status != http::Io::ok) co_return false;
    shared.last_moved = from.loop().now();
    buffer.commit(got.bytes);
  }
}

Task<void> copy(http::Socket& from, http::Buffer& buffer, http::Socket& to, Duration idle_limit, Shared& shared) {
  const bool clean = co_await copy_until_end(from, buffer, to, idle_limit, shared);
  if (!clean) {
    from.cancel();
    to.cancel();
  }
  if (--shared.running == 0 && shared.done) shared.done.resume();
}

}  // namespace

Task<void> tunnel(http::Socket& client, http::Buffer& from_client, http::Socket& backend, http::Buffer& from_backend,
                  Duration idle_limit) {
  Shared shared;
  shared.last_moved = client.loop().now();
  spawn(copy(client, from_client, backend, idle_limit, shared));
  spawn(copy(backend, from_backend, client, idle_limit, shared));
  co_await shared;
}

}  // namespace once
