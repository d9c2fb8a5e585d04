// One TLS connection over a socket's descriptor. Never waits: what cannot go on now says so, and is tried again after
// the next event. socket.hpp makes something to await of it.
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
    wait,    // for an event, whichever
    end,     // the peer said that it sends no more
    failed,  // broken; or the stream ended without a word, so that anybody may have cut it
  };
  struct Moved {
    Step step;
    std::size_t bytes;
  };

  // Takes over `ssl`; `keeps` lives as long as it does.
  TlsStream(ssl_st* ssl, std::shared_ptr<const void> keeps);
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;
  ~TlsStream();

  // Before anything else. The descriptor stays its owner's.
  void attach(Net& net, int fd) {
    net_ = &net;
    fd_ = fd;
  }
  // What the loop heard: there may be bytes to read; the peer's end of them is among what is still to be read.
  void on_event(bool peer_ended);

  Step handshake();
  // Why it failed, in fixed words: nothing in it comes from the peer.
  std::string problem() const;
  // The peer spoke plain HTTP.
  bool heard_http() const { return heard_http_; }
  // Whom the peer's certificate names (RFC 2253), if it showed one and that was verified.
  std::string peer_subject() const;
  // Who signed that, written the same way.
  std::string peer_issuer() const;

  Moved read(std::span<char> room);
  // As read(), of one byte that is not taken.
  Step look();
  // After either. drained: nothing is left in here. starved: if anything is, only more bytes can make it whole.
  bool drained() const;
  bool starved() const { return kernel_empty_ && !wants_to_write_; }

  // Up to a record's worth of what the pieces hold, or nothing. After `wait` it must be called with the same bytes.
  Moved write(std::span<const iovec> pieces);
  // Some bytes went out since this was last asked, if only of a record that is not whole yet.
  bool moved();
  // A record that is partly out.
  bool writing() const { return writing_; }

  // Tells the peer that nothing follows, so that it can take what it got for the whole. Ends in `ok`, `wait` or
  // `failed`; nothing can be written afterwards.
  Step end();
  // Nothing leaves any more, not even what was begun.
  void mute() { muted_ = true; }

 private:
  struct Wire;  // between OpenSSL and the descriptor

  Step step_of(int result);
  const x509_st* verified_certificate() const;  // null: none was shown, or it was not verified
  ssl_st* ssl_;
  std::shared_ptr<const void> keeps_;
  Net* net_ = nullptr;
  int fd_ = -1;
  bool kernel_empty_ = false;  // as far as we know: the next bytes come with an event
  bool peer_ended_ = false;
  bool raw_end_ = false;
  bool writing_ = false;
  bool wants_to_write_ = false;  // before it can read
  bool moved_ = false;
  bool muted_ = false;
  bool broken_ = false;
  bool said_end_ = false;
  bool heard_http_ = false;
  long verified_ = 0;
  unsigned long error_ = 0;
};

}  // namespace once::http
