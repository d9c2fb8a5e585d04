#include "gateway/passthrough/tunnel.hpp"

#include <chrono>

#include "base/event.hpp"
#include "base/sometimes.hpp"

namespace once::gateway {

namespace {

struct Tunnel {
  std::chrono::nanoseconds last_moved{};
  int running = 2;
  Event ended;
};

Task<http::Transfer> copy_until_end(http::Socket& from, http::Buffer& buffer, http::Socket& to, Duration idle_limit,
                                    Tunnel& tunnel_state) {
  while (true) {
    if (!buffer.empty()) {
      const http::IoResult sent = co_await to.write_all(buffer.unread(), idle_limit);
      // Bytes are lost, so the sender must not see a clean end.
      if (sent.status != http::Io::ok && sent.status != http::Io::cancelled) from.reset_on_close();
      if (sent.status != http::Io::ok) co_return http::Transfer::cut_off;
      buffer.consume(buffer.unread().size());
      tunnel_state.last_moved = from.loop().now();
    }
    const http::IoResult got = co_await from.read_some(buffer.room(), idle_limit);
    if (got.status == http::Io::end) {
      to.shut_down_writing();
      co_return http::Transfer::whole;
    }
    // Silence in one direction is fine while the other one is active.
    if (got.status == http::Io::timed_out && from.loop().now() - tunnel_state.last_moved < idle_limit) {
      sometimes<"tunnel: one direction is silent">();
      continue;
    }
    sometimes<"tunnel: reset by one side">(got.status == http::Io::failed);
    sometimes<"tunnel: silent for too long">(got.status == http::Io::timed_out);
    if (got.status == http::Io::failed) to.reset_on_close();
    if (got.status != http::Io::ok) co_return http::Transfer::cut_off;
    tunnel_state.last_moved = from.loop().now();
    buffer.commit(got.bytes);
  }
}

Task<void> copy(http::Socket& from, http::Buffer& buffer, http::Socket& to, Duration idle_limit, Tunnel& tunnel_state) {
  const http::Transfer copied = co_await copy_until_end(from, buffer, to, idle_limit, tunnel_state);
  if (copied == http::Transfer::cut_off) {
    from.cancel();
    to.cancel();
  }
  if (--tunnel_state.running == 0) tunnel_state.ended.set();
}

}  // namespace

Task<void> tunnel(http::Socket& client, http::Buffer& from_client, http::Socket& backend, http::Buffer& from_backend,
                  Duration idle_limit) {
  Tunnel tunnel_state;
  tunnel_state.last_moved = client.loop().now();
  spawn(copy(client, from_client, backend, idle_limit, tunnel_state));
  spawn(copy(backend, from_backend, client, idle_limit, tunnel_state));
  co_await tunnel_state.ended;
}

}  // namespace once::gateway
