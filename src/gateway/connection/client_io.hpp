// A client's connection and the request at hand on it: what reading, replying and passing through all work with.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/task.hpp"
#include "gateway/identity/origin.hpp"
#include "gateway/settings.hpp"
#include "http/body.hpp"
#include "http/buffer.hpp"
#include "http/endpoint.hpp"
#include "http/head.hpp"
#include "http/socket.hpp"
#include "http/upstream.hpp"

namespace once::gateway {

// How fast a client sends a body: averaged over the time in which it was waited for, with a grace.
struct Pace {
  // Bytes a second. A client that keeps to it is never displaced.
  static constexpr std::chrono::nanoseconds::rep decent_rate = 16'384;
  // What was sent faster than that counts for so long: one that has sent much may not stop for long.
  static constexpr std::chrono::seconds most_credit{10};

  std::size_t least_rate = 0;  // bytes a second; 0: any
  // The response has begun and the two sides talk to each other: how fast is theirs to say, only silence is limited.
  bool conversation = false;
  Duration grace{};
  std::chrono::nanoseconds waited{};
  std::chrono::nanoseconds waits_since{};
  std::chrono::nanoseconds credit{};  // how far it is ahead of the decent rate; negative: behind
  std::uint64_t bytes = 0;
  bool waiting = false;  // for the next bytes, since `waits_since`

  // How long the next bytes may take; zero: those that are not here already come too late.
  Duration left() const;
  // Before and after each time that bytes are waited for.
  void begin_wait(std::chrono::nanoseconds now) {
    waits_since = now;
    waiting = true;
  }
  void end_wait(std::chrono::nanoseconds now, std::size_t got) {
    waiting = false;
    waited += now - waits_since;
    bytes += got;
    constexpr std::chrono::nanoseconds a_byte = std::chrono::nanoseconds(std::chrono::seconds(1)) / decent_rate;
    const auto earned = static_cast<std::chrono::nanoseconds::rep>(got) * a_byte;
    credit = std::min<std::chrono::nanoseconds>(credit + earned - (now - waits_since), most_credit);
  }
  // How long it keeps us waiting beyond what a client of that speed would.
  std::chrono::nanoseconds debt(std::chrono::nanoseconds now) const { return now - waits_since - credit; }
};

struct ClientIo {
  ClientIo(http::Loop& loop, const http::Socket::Accepted& accepted)
      : socket(loop, accepted.fd), peer(http::peer_text(accepted.peer)) {}

  // Some of the request's body.
  Task<http::BodyChunk> next_body();
  // A body that came with its head and was too large for the buffer, without a wait: it is used where it lies.
  void read_body_at_hand();

  // How long the client keeps us waiting in the midst of a message, beyond what a client of a decent speed would.
  std::chrono::nanoseconds debt() const;
  // Ends the connection in the midst of that message, to make room for another. A response that goes out is recorded,
  // or has no key; of a request that comes in nothing was executed.
  void displace();

  // The client has sent more than was read: closing now would reset the connection, and the reply with it. Not of a
  // connection that is to be reset.
  bool has_more();

  Origin::Transport transport() const { return secure ? Origin::Transport::tls : Origin::Transport::plain; }
  // Where requests on this connection come from. Whether the peer is a trusted proxy is looked up with every call.
  const Origin& origin(const http::AddressSet& trusted_proxies);

  http::Socket socket;
  std::string peer;                          // the client's numeric address, or "unix"
  const ClientTimeouts* timeouts = nullptr;  // of the generation that serves the request at hand
  http::Buffer buffer;
  http::RequestHead head;
  http::BodyDecoder body;
  Pace pace;              // of the body
  bool sent_end = false;  // the client's side of the stream has ended
  bool secure = false;    // over TLS
  bool displaced = false;
  // Since when a head or a handshake is waited for, while it is.
  std::optional<std::chrono::nanoseconds> head_awaited_since;
  // Whom the client's verified certificate names, as RFC 2253 writes it; empty: it showed none.
  std::string tls_subject;
  std::string tls_issuer;  // and who vouches for it

 private:
  std::optional<Origin> origin_;  // made with the first request
};

}  // namespace once::gateway
