// A client connection and its current request: the state that reading, replying and passing through share.
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

// The speed of a client that sends a body: averaged over the time spent waiting for it, with a grace period.
struct Pace {
  // Bytes a second. A client that is this fast is never displaced.
  static constexpr std::chrono::nanoseconds::rep decent_rate = 16'384;
  // The most credit from sending faster: even a client that has sent much may not pause for long.
  static constexpr std::chrono::seconds most_credit{10};

  std::size_t least_rate = 0;  // bytes a second; 0: any
  // Set once the response has begun to pass through: from then on only idle time is limited, not speed.
  bool conversation = false;
  Duration grace{};
  std::chrono::nanoseconds waited{};
  std::chrono::nanoseconds waits_since{};
  std::chrono::nanoseconds credit{};  // how far the client is ahead of the decent rate; negative: behind
  std::uint64_t bytes = 0;
  bool waiting = false;  // for the next bytes, since `waits_since`

  // How long the next bytes may take; zero: they are already late.
  Duration left() const;
  // Call before and after each wait for bytes.
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
  // How far the client is behind a client of the decent rate.
  std::chrono::nanoseconds debt(std::chrono::nanoseconds now) const { return now - waits_since - credit; }
};

struct ClientIo {
  ClientIo(http::Loop& loop, const http::Socket::Accepted& accepted)
      : socket(loop, accepted.fd), peer(http::peer_text(accepted.peer)) {}

  // Reads more of the request's body.
  Task<http::BodyChunk> next_body();
  // If the head and the body did not fit into the buffer together: reads the bytes that have already arrived into a
  // larger one, without waiting, so that the body can be used in place.
  void read_body_at_hand();

  // How far the client is behind a client of a decent speed in the current message.
  std::chrono::nanoseconds debt() const;
  // Ends the connection in the middle of that message, to free its resources for another. Safe: an outgoing response is
  // recorded or has no key, and an incoming request was not executed.
  void displace();

  // Whether the client has sent bytes that were not read: closing now would reset the connection and could destroy the
  // reply. False if the connection is to be reset anyway.
  bool has_more();

  Origin::Transport transport() const { return secure ? Origin::Transport::tls : Origin::Transport::plain; }
  // The origin of requests on this connection. Each call checks whether the peer is a trusted proxy.
  const Origin& origin(const http::AddressSet& trusted_proxies);

  http::Socket socket;
  std::string peer;                          // the client's numeric address, or "unix"
  const ClientTimeouts* timeouts = nullptr;  // of the generation that serves the current request
  http::Buffer buffer;
  http::RequestHead head;
  http::BodyDecoder body;
  Pace pace;              // of the body
  bool sent_end = false;  // the client closed its sending side
  bool secure = false;    // over TLS
  bool displaced = false;
  // When the wait for a head or a handshake began, while it lasts.
  std::optional<std::chrono::nanoseconds> head_awaited_since;
  // The subject of the client's verified certificate, in RFC 2253 form; empty: no certificate.
  std::string tls_subject;
  std::string tls_issuer;  // its issuer

 private:
  std::optional<Origin> origin_;  // made with the first request
};

}  // namespace once::gateway
