#include "http/tls_stream.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/assert.hpp"
#include "http/net.hpp"

namespace once::http {

namespace {

constexpr std::size_t record_size = SSL3_RT_MAX_PLAIN_LENGTH;

std::string text_of(const X509_NAME* name) {
  BIO* out = BIO_new(BIO_s_mem());
  ONCE_ASSERT(out != nullptr);
  std::string text;
  if (X509_NAME_print_ex(out, name, 0, XN_FLAG_RFC2253) >= 0) {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(out, &bytes);
    text.assign(bytes, static_cast<std::size_t>(size));
  }
  BIO_free(out);
  return text;
}

}  // namespace

// Replaces OpenSSL's socket BIO, whose write(2) may raise SIGPIPE. It also tracks what no BIO reports: whether the
// socket was emptied, whether bytes moved, whether the raw stream has ended.
struct TlsStream::Wire {
  static const BIO_METHOD* method();
  static int read(BIO* bio, char* room, int size);
  static int write(BIO* bio, const char* bytes, int size);
};

const BIO_METHOD* TlsStream::Wire::method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "once socket");
    ONCE_ASSERT(made != nullptr);
    BIO_meth_set_read(made, read);
    BIO_meth_set_write(made, write);
    // Do not report the end of the raw stream as BIO_CTRL_EOF: OpenSSL would refuse to write from then on, but a
    // half-closed peer may still read.
    BIO_meth_set_ctrl(made, [](BIO*, int command, long, void*) -> long { return command == BIO_CTRL_FLUSH ? 1 : 0; });
    return made;
  }();
  return method;
}

int TlsStream::Wire::read(BIO* bio, char* room, int size) {
  auto& self = *static_cast<TlsStream*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  while (!self.kernel_empty_) {
    const auto wanted = static_cast<std::size_t>(size);
    const ssize_t got = self.net_->receive(self.fd_, {room, wanted});
    if (got > 0) {
      // A short read has emptied the socket, as in ReadSome.
      self.kernel_empty_ = static_cast<std::size_t>(got) < wanted && !self.peer_ended_;
      return static_cast<int>(got);
    }
    if (got == 0) {
      self.raw_end_ = true;
      return 0;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return -1;
    self.kernel_empty_ = true;
  }
  BIO_set_retry_read(bio);
  return -1;
}

int TlsStream::Wire::write(BIO* bio, const char* bytes, int size) {
  auto& self = *static_cast<TlsStream*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (self.muted_) return -1;
  const iovec piece{.iov_base = const_cast<char*>(bytes), .iov_len = static_cast<std::size_t>(size)};
  while (true) {
    const ssize_t sent = self.net_->send(self.fd_, {&piece, 1});
    if (sent >= 0) {
      self.moved_ = true;
      return static_cast<int>(sent);
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) BIO_set_retry_write(bio);
    return -1;
  }
}

TlsStream::TlsStream(SSL* ssl, std::shared_ptr<const void> keeps) : ssl_(ssl), keeps_(std::move(keeps)) {
  BIO* bio = BIO_new(Wire::method());
  ONCE_ASSERT(bio != nullptr);
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_, bio, bio);
}

TlsStream::~TlsStream() {
  SSL_free(ssl_);
}

void TlsStream::on_event(bool peer_ended) {
  kernel_empty_ = false;
  peer_ended_ = peer_ended;
}

// Call ERR_clear_error() before every OpenSSL call: a stale error in the thread's queue would be taken for this call's.
TlsStream::Step TlsStream::step_of(int result) {
  const int error = SSL_get_error(ssl_, result);
  wants_to_write_ = error == SSL_ERROR_WANT_WRITE;
  switch (error) {
    case SSL_ERROR_NONE: return Step::ok;
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: return Step::wait;
    case SSL_ERROR_ZERO_RETURN: return Step::end;
    case SSL_ERROR_SSL: broken_ = true; break;
    default: break;  // a socket error, or the end of the stream
  }
  error_ = ERR_peek_last_error();
  ERR_clear_error();
  return Step::failed;
}

TlsStream::Step TlsStream::handshake() {
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  if (result == 1) return Step::ok;
  const Step step = step_of(result);
  if (step == Step::wait) return step;
  broken_ = true;
  verified_ = SSL_get_verify_result(ssl_);
  heard_http_ = ERR_GET_LIB(error_) == ERR_LIB_SSL && ERR_GET_REASON(error_) == SSL_R_HTTP_REQUEST;
  return Step::failed;
}

std::string TlsStream::problem() const {
  const char* reason = error_ != 0 ? ERR_reason_error_string(error_) : nullptr;
  std::string text = reason != nullptr ? reason : raw_end_ ? "the connection was closed" : "the connection was lost";
  if (verified_ != X509_V_OK) text.append(": ").append(X509_verify_cert_error_string(verified_));
  return text;
}

const x509_st* TlsStream::verified_certificate() const {
  const bool verified = (SSL_get_verify_mode(ssl_) & SSL_VERIFY_PEER) != 0 && SSL_get_verify_result(ssl_) == X509_V_OK;
  return verified ? SSL_get0_peer_certificate(ssl_) : nullptr;
}

std::string TlsStream::peer_subject() const {
  const X509* certificate = verified_certificate();
  return certificate != nullptr ? text_of(X509_get_subject_name(certificate)) : "";
}

std::string TlsStream::peer_issuer() const {
  const X509* certificate = verified_certificate();
  return certificate != nullptr ? text_of(X509_get_issuer_name(certificate)) : "";
}

TlsStream::Moved TlsStream::read(std::span<char> room) {
  ERR_clear_error();
  std::size_t bytes = 0;
  const int result = SSL_read_ex(ssl_, room.data(), room.size(), &bytes);
  return {.step = result == 1 ? Step::ok : step_of(result), .bytes = bytes};
}

TlsStream::Step TlsStream::look() {
  ERR_clear_error();
  char byte = 0;
  std::size_t bytes = 0;
  const int result = SSL_peek_ex(ssl_, &byte, 1, &bytes);
  if (result == 1) return Step::ok;
  const Step step = step_of(result);
  // A peer that closed without close_notify may still read our bytes: only a read() treats this as a failure.
  return step == Step::failed && raw_end_ && !broken_ ? Step::end : step;
}

bool TlsStream::drained() const {
  return kernel_empty_ && SSL_has_pending(ssl_) == 0;
}

TlsStream::Moved TlsStream::write(std::span<const iovec> pieces) {
  if (muted_ || broken_ || end_sent_) return {.step = Step::failed, .bytes = 0};
  // Join small pieces into one record: a record of its own costs a piece a system call and some thirty bytes.
  std::array<char, record_size> joined;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled as far as it is used
  const void* bytes = pieces.front().iov_base;
  std::size_t size = std::min(pieces.front().iov_len, record_size);
  if (pieces.size() > 1 && size < record_size) {
    size = 0;
    for (const iovec& piece : pieces) {
      const std::size_t part = std::min(piece.iov_len, record_size - size);
      std::memcpy(joined.data() + size, piece.iov_base, part);
      size += part;
    }
    bytes = joined.data();
  }
  ERR_clear_error();
  std::size_t written = 0;
  const int result = SSL_write_ex(ssl_, bytes, size, &written);
  const Step step = result == 1 ? Step::ok : step_of(result);
  writing_ = step == Step::wait;
  return {.step = step == Step::end ? Step::failed : step, .bytes = written};
}

bool TlsStream::moved() {
  return std::exchange(moved_, false);
}

TlsStream::Step TlsStream::end() {
  if (end_sent_) return Step::ok;
  if (muted_ || broken_ || writing_ || SSL_is_init_finished(ssl_) == 0) return Step::failed;
  ERR_clear_error();
  const int result = SSL_shutdown(ssl_);
  end_sent_ = result >= 0;  // 0: the peer has not sent its own yet
  if (end_sent_) return Step::ok;
  return step_of(result) == Step::wait ? Step::wait : Step::failed;
}

}  // namespace once::http
