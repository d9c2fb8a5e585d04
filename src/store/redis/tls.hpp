// TLS over bytes, without a socket: what came from the wire goes in, what has to go to the wire comes out. OpenSSL's
// own sockets would raise SIGPIPE in a process that is not ours to configure.
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

// An error is about the files; it does not mend itself.
Result<TlsContext> make_tls_context(const TlsFiles& files);

class Tls {
 public:
  // `host` is what the certificate must be for, and what the server is asked for by name.
  static Result<std::unique_ptr<Tls>> make(SSL_CTX& context, const std::string& host);

  // Call again with more bytes from the wire until it is done. An error that says Retryable::no is a certificate that
  // is not trusted.
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
