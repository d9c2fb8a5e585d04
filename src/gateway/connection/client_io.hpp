// A client's connection and the request at hand on it: what the keyed and the pass-through side both work with.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/task.hpp"
#include "gateway/settings.hpp"
#include "http/body.hpp"
#include "http/buffer.hpp"
#include "http/endpoint.hpp"
#include "http/head.hpp"
#include "http/socket.hpp"
#include "http/upstream.hpp"

namespace once {

// How fast a client sends a body: averaged over the time in which it was waited for, with a grace.
struct Pace {
  std::size_t least_rate = 0;  // bytes a second; 0: any
  // The response has begun and the two sides talk to each other: how fast is theirs to say, only silence is limited.
  bool conversation = false;
  Duration grace{};
  std::chrono::nanoseconds waited{};
  std::chrono::nanoseconds waits_since{};
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
  }
};

struct ClientIo {
  ClientIo(http::Loop& loop, const http::Socket::Accepted& accepted)
      : socket(loop, accepted.fd), peer(http::peer_text(accepted.peer)) {}

  // Some of the request's body.
  Task<http::BodyChunk> next_body();

  http::Socket socket;
  std::string peer;                          // the client's numeric address, or "unix"
  const ClientTimeouts* timeouts = nullptr;  // of the generation that serves the request at hand
  http::Buffer buffer;
  http::RequestHead head;
  http::BodyDecoder body;
  Pace pace;              // of the body
  bool sent_end = false;  // the client's side of the stream has ended
  bool secure = false;    // over TLS
  // Whom the client's verified certificate names, as RFC 2253 writes it; empty: it showed none.
  std::string tls_subject;
  std::string tls_issuer;  // and who vouches for it
};

}  // namespace once
