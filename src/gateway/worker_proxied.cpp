// Connections that begin with a PROXY protocol header: which peers may send one, and which client it names. The
// connection is counted for that client's address, and TLS begins, only after the header.
#include <algorithm>
#include <array>
#include <span>

#include "gateway/worker.hpp"
#include "http/proxy_protocol.hpp"

namespace once::gateway {

using http::Io;
using http::ProxyHeader;
using http::ProxyHeaderRead;

void Worker::take(const http::Socket::Accepted& accepted, Over over) {
  const ProxyProtocolSettings& proxied = generation_->settings().proxy_protocol;
  const bool introduced = over == Over::tls ? proxied.tls : proxied.plain;
  if (!introduced) {
    admit(accepted, over);
  } else if (!http::contains(proxied.from, accepted.peer)) {
    note_refusal(ProxyRefusal::untrusted, accepted.peer, "its address is not in proxy_protocol.from");
    spawn(refuse(accepted.fd, over,
                 problem(ProblemKind::forbidden, "This port is for load balancers that send a PROXY header.")));
  } else {
    spawn(introduce(accepted, over));
  }
}

void Worker::note_refusal(ProxyRefusal why, const sockaddr_storage& peer, std::string_view detail) {
  metrics_.proxy_refused[static_cast<std::size_t>(why)].add();
  shared_.log.warn("connection refused, no PROXY header",
                   {{"peer", http::peer_text(peer)}, {"reason", name_of(why)}, {"detail", detail}});
}

Task<void> Worker::introduce(http::Socket::Accepted accepted, Over over) {
  const ServingSettings& settings = generation_->settings();
  http::Socket socket(loop_, accepted.fd);
  if (introducing_.size() >= settings.limits.max_connections) {
    note_refusal(ProxyRefusal::overload, accepted.peer, "too many connections are waiting for their header");
    socket.reset_on_close();
    co_return;
  }
  hold();
  introducing_.push_back(&socket);
  const Duration limit = settings.timeouts.header;
  const Introduced introduced = co_await read_introduction(socket, accepted.peer, limit);
  std::erase(introducing_, &socket);
  if (introduced == Introduced::yes) {
    accepted.fd = socket.release();
    admit(accepted, over);
  } else {
    socket.reset_on_close();
  }
  let_go();
}

// Replaces `peer`, the proxy, by the client that the header names. Exactly the header is consumed: with TLS the rest
// belongs to the handshake.
Task<Worker::Introduced> Worker::read_introduction(http::Socket& socket, sockaddr_storage& peer, Duration limit) {
  const auto deadline = loop_.now() + limit;
  std::array<char, http::longest_proxy_header> room;
  ProxyHeaderRead read;
  std::size_t seen = 0;
  while (read.kind == ProxyHeaderRead::Kind::incomplete) {
    const Duration left = std::max(Duration(1), std::chrono::ceil<Duration>(deadline - loop_.now()));
    const http::IoResult got = co_await socket.peek_more(room, seen, left);
    if (got.status == Io::timed_out) note_refusal(ProxyRefusal::late, peer, "the header did not arrive in time");
    // A connection that closes without a byte is a port check, not an error.
    const bool cut_off = seen > 0 && got.status != Io::ok && got.status != Io::cancelled && got.status != Io::timed_out;
    if (cut_off) note_refusal(ProxyRefusal::malformed, peer, "the header is incomplete");
    if (got.status != Io::ok) co_return Introduced::no;
    seen = got.bytes;
    read = http::read_proxy_header({room.data(), seen});
  }
  if (read.kind == ProxyHeaderRead::Kind::malformed) {
    note_refusal(ProxyRefusal::malformed, peer, read.problem);
    co_return Introduced::no;
  }
  for (std::size_t taken = 0; taken < read.header.size;) {
    const std::span<char> header(room.data(), read.header.size - taken);
    const http::IoResult got = co_await socket.read_some(header, limit);
    if (got.status != Io::ok) co_return Introduced::no;
    taken += got.bytes;
  }
  // A header without an address: the peer is not the client, so it must not be trusted as a proxy.
  if (read.header.source != ProxyHeader::Source::proxy) peer = read.header.address;
  co_return Introduced::yes;
}

}  // namespace once::gateway
