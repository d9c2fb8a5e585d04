// One TLS connection over a socket's descriptor. Never blocks: a call that would block returns `wait` and is repeated
// after the next event. socket.hpp has the awaitable operations.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/layers.hpp"

struct ssl_st;  // OpenSSL's own headers stay in the sources
struct x509_st;

namespace once::http {

class Net;

class TlsStream {
 public:
  enum class Step : std::uint8_t {
    ok,
    wait,    // for any event
    end,     // the peer sent close_notify
    failed,  // broken, or truncated: the stream ended without close_notify
  };
  struct Moved {
    Step step;
    std::size_t bytes;
  };

  // Takes ownership of `ssl`, and keeps `keeps` alive as long.
  TlsStream(ssl_st* ssl, std::shared_ptr<const void> keeps);
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;
  ~TlsStream();

  // Call first. Does not take ownership of the descriptor.
  void attach(Net& net, int fd) {
    net_ = &net;
    fd_ = fd;
  }
  // Call on every event of the loop: there may be bytes to read and, with `peer_ended`, the end of the stream.
  void on_event(bool peer_ended);

  Step handshake();
  // The reason of a failure. The text is fixed and contains nothing from the peer.
  std::string problem() const;
  // Whether the peer spoke plain HTTP.
  bool heard_http() const { return heard_http_; }
  // The subject of the peer's certificate (RFC 2253), if it sent one and that was verified.
  std::string peer_subject() const;
  // The issuer of that certificate, in the same form.
  std::string peer_issuer() const;

  Moved read(std::span<char> room);
  // Like read(), but peeks at one byte and consumes nothing.
  Step look();
  // After read() or look(): drained() if nothing is buffered here, starved() if at most a partial record is, which
  // needs more bytes.
  bool drained() const;
  bool starved() const { return kernel_empty_ && !wants_to_write_; }

  // Writes up to one record from the pieces, or nothing. After `wait` it must be called with the same bytes.
  Moved write(std::span<const iovec> pieces);
  // Whether bytes were sent since the last call, even if only part of a record.
  bool moved();
  // Whether a record was sent in part.
  bool writing() const { return writing_; }

  // Sends close_notify, so that the peer knows that the stream is complete. Returns `ok`, `wait` or `failed`. Nothing
  // can be written afterwards.
  Step end();
  // Sends nothing more, not even the rest of a partial record.
  void mute() { muted_ = true; }

 private:
  struct Wire;  // between OpenSSL and the descriptor

  Step step_of(int result);
  const x509_st* verified_certificate() const;  // null: none was sent, or it was not verified
  ssl_st* ssl_;
  std::shared_ptr<const void> keeps_;
  Net* net_ = nullptr;
  int fd_ = -1;
  bool kernel_empty_ = false;  // as far as known: an event will announce more bytes
  bool peer_ended_ = false;
  bool raw_end_ = false;
  bool writing_ = false;
  bool wants_to_write_ = false;  // before it can read
  bool moved_ = false;
  bool muted_ = false;
  bool broken_ = false;
  bool end_sent_ = false;
  bool heard_http_ = false;
  long verified_ = 0;
  unsigned long error_ = 0;
};

}  // namespace once::http
