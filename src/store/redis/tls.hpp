// TLS on byte buffers, without a socket: received bytes go in, bytes to send come out. OpenSSL's own sockets would
// raise SIGPIPE, and the library must not change the signal handling of its process.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <openssl/ssl.h>

#include "base/error.hpp"
#include "store/redis/options.hpp"

namespace once::redis {

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
// Shared by all connections of a store.
using TlsContext = std::unique_ptr<SSL_CTX, FreeContext>;

// Errors concern the files and are permanent.
Result<TlsContext> make_tls_context(const TlsFiles& files);

class Tls {
 public:
  // `host`: the name that the certificate must have, also sent as SNI.
  static Result<std::unique_ptr<Tls>> make(SSL_CTX& context, const std::string& host);

  // Call it with more received bytes until it is done. An error with Retryable::no means an untrusted certificate.
  enum class Handshake : std::uint8_t { needs_more, done };
  Result<Handshake> shake_hands(std::string_view from_wire, std::string& to_wire);

  Result<void> encrypt(std::string_view plain, std::string& to_wire);
  Result<void> decrypt(std::string_view from_wire, std::string& plain, std::string& to_wire);

 private:
  struct FreeSsl {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  explicit Tls(SSL* ssl) : ssl_(ssl) {}
  void take_output(std::string& to_wire);
  Result<void> feed(std::string_view from_wire);
  std::unexpected<Error> failed(std::string_view what);

  std::unique_ptr<SSL, FreeSsl> ssl_;
};

}  // namespace once::redis
