#include "gateway/connection/client_io.hpp"

#include <algorithm>

namespace once::gateway {

Duration Pace::left() const {
  if (least_rate == 0 || conversation) return grace;
  const Duration earned(static_cast<Duration::rep>(bytes * 1000 / least_rate));
  return std::clamp(grace + earned - std::chrono::floor<Duration>(waited), Duration::zero(), grace);
}

Task<http::BodyChunk> ClientIo::next_body() {
  using http::BodyChunk;
  using http::BodyDecoder;
  while (true) {
    const BodyDecoder::Step step = body.next(buffer);
    switch (step.kind) {
      case BodyDecoder::Kind::data: co_return BodyChunk{.kind = BodyChunk::Kind::data, .data = step.data};
      case BodyDecoder::Kind::end: co_return BodyChunk{.kind = BodyChunk::Kind::end, .data = {}};
      case BodyDecoder::Kind::bad: co_return BodyChunk{.kind = BodyChunk::Kind::broken, .data = {}};
      case BodyDecoder::Kind::need_more: break;
    }
    if (buffer.filled()) buffer.try_widen(socket.loop().windows());
    pace.begin_wait(socket.loop().now());
    const http::IoResult got = co_await socket.read_some(buffer.room(), pace.left());
    pace.end_wait(socket.loop().now(), got.bytes);
    if (got.status == http::Io::timed_out) co_return BodyChunk{.kind = BodyChunk::Kind::timed_out, .data = {}};
    if (got.status != http::Io::ok) {
      sent_end = true;
      co_return BodyChunk{.kind = BodyChunk::Kind::broken, .data = {}};
    }
    buffer.commit(got.bytes);
  }
}

void ClientIo::read_body_at_hand() {
  const bool has_more =
      head.framing.kind == http::Framing::Kind::length && head.framing.length > buffer.unread().size();
  if (!has_more || !buffer.filled() || !buffer.try_widen(socket.loop().windows())) return;
  buffer.commit(socket.read_ready(buffer.room()));
}

std::chrono::nanoseconds ClientIo::debt() const {
  if (displaced) return {};
  const auto now = socket.loop().now();
  if (head_awaited_since) return now - *head_awaited_since;
  if (pace.waiting && !pace.conversation) return pace.debt(now);
  return socket.write_debt(Pace::decent_rate);
}

void ClientIo::displace() {
  displaced = true;
  socket.reset_on_close();
  socket.cancel();
}

bool ClientIo::has_more() {
  if (socket.resets()) return false;
  return !buffer.empty() || socket.peer_now() == http::Socket::Peer::bytes;
}

const Origin& ClientIo::origin(const http::AddressSet& trusted_proxies) {
  if (!origin_) origin_.emplace(peer, transport());
  origin_->trust(trusted_proxies);
  return *origin_;
}

}  // namespace once::gateway
