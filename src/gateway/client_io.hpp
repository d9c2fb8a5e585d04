// A client's connection and the request at hand on it: what the keyed and the pass-through side both work with.
#pragma once

#include <string>
#include <string_view>

#include "base/task.hpp"
#include "gateway/settings.hpp"
#include "http/body.hpp"
#include "http/buffer.hpp"
#include "http/head.hpp"
#include "http/socket.hpp"
#include "http/upstream.hpp"

namespace once {

struct ClientIo {
  ClientIo(http::Loop& loop, int fd) : socket(loop, fd) {}

  // Some of the request's body.
  Task<http::BodyChunk> next_body();

  // The client's numeric address, or "unix". The system is asked for it once, and only if somebody wants to know.
  const std::string& peer_address();

  http::Socket socket;
  const ClientTimeouts* timeouts = nullptr;  // of the generation that serves the request at hand
  http::Buffer buffer;
  http::RequestHead head;
  http::BodyDecoder body;
  bool sent_end = false;  // the client's side of the stream has ended
  bool secure = false;    // over TLS
  // Whom the client's verified certificate names, as RFC 2253 writes it; empty: it showed none.
  std::string tls_subject;
  std::string peer;  // see peer_address()
};

}  // namespace once
