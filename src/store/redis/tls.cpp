#include "store/redis/tls.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "store/server/store_url.hpp"

namespace once::redis {

namespace {

constexpr std::size_t chunk = 16'384;  // the size of one TLS record

std::string last_openssl_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "no reason given";
  const char* const reason = ERR_reason_error_string(code);
  return reason == nullptr ? fmt::format("OpenSSL error {:#x}", code) : reason;
}

std::unexpected<Error> wrong_file(std::string_view what, const std::string& path) {
  return std::unexpected(Error{.source = ErrorSource::config,
                               .retryable = Retryable::no,
                               .detail = fmt::format("Redis TLS: {} {}: {}", what, path, last_openssl_error())});
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> parsed{};
  return ::inet_pton(AF_INET, host.c_str(), parsed.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), parsed.data()) == 1;
}

int length_of(std::string_view bytes) {
  return static_cast<int>(std::min(bytes.size(), static_cast<std::size_t>(std::numeric_limits<int>::max())));
}

}  // namespace

Result<TlsContext> make_tls_context(const TlsFiles& files) {
  const std::pair<std::string_view, const std::string*> named[] = {
      {"ca", &files.ca}, {"cert", &files.cert}, {"key", &files.key}};
  for (const auto& [option, path] : named) {
    if (auto readable = check_url_file(option, *path); !readable) return std::unexpected(readable.error());
  }
  ERR_clear_error();
  TlsContext context(SSL_CTX_new(TLS_client_method()));
  if (!context || SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1) return wrong_file("context", "");
  SSL_CTX_set_verify(context.get(), files.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (!files.ca.empty()) {
    if (SSL_CTX_load_verify_file(context.get(), files.ca.c_str()) != 1) return wrong_file("cannot use ca", files.ca);
  } else if (SSL_CTX_set_default_verify_paths(context.get()) != 1) {
    return wrong_file("cannot read the system's certificates", "");
  }
  if (!files.cert.empty()) {
    if (SSL_CTX_use_certificate_chain_file(context.get(), files.cert.c_str()) != 1) {
      return wrong_file("cannot use cert", files.cert);
    }
    if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(context.get()) != 1) {
      return wrong_file("cannot use key", files.key);
    }
  }
  return context;
}

Result<std::unique_ptr<Tls>> Tls::make(SSL_CTX& context, const std::string& host) {
  ERR_clear_error();
  std::unique_ptr<Tls> tls(new Tls(SSL_new(&context)));
  SSL* const ssl = tls->ssl_.get();
  BIO* const in = BIO_new(BIO_s_mem());
  BIO* const out = BIO_new(BIO_s_mem());
  if (ssl == nullptr || in == nullptr || out == nullptr) {
    BIO_free(in);
    BIO_free(out);
    return tls->failed("no memory");
  }
  BIO_set_mem_eof_return(in, -1);  // an empty buffer means "not yet", not the end
  SSL_set_bio(ssl, in, out);       // which now owns both
  SSL_set_connect_state(ssl);
  // A host name is checked against the certificate's names, an address against its addresses.
  const bool named = !is_address(host);
  const bool set = named ? SSL_set1_host(ssl, host.c_str()) == 1 && SSL_set_tlsext_host_name(ssl, host.c_str()) == 1
                         : X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1;
  if (!set) return tls->failed("host name");
  return tls;
}

std::unexpected<Error> Tls::failed(std::string_view what) {
  const long verified = ssl_ ? SSL_get_verify_result(ssl_.get()) : X509_V_OK;
  const bool distrusted = verified != X509_V_OK;
  const std::string reason = distrusted ? X509_verify_cert_error_string(verified) : last_openssl_error();
  ERR_clear_error();
  return std::unexpected(Error{.source = ErrorSource::store,
                               .retryable = distrusted ? Retryable::no : Retryable::yes,
                               .detail = fmt::format("TLS {}: {}", what, reason)});
}

Result<void> Tls::feed(std::string_view from_wire) {
  while (!from_wire.empty()) {
    const int taken = BIO_write(SSL_get_rbio(ssl_.get()), from_wire.data(), length_of(from_wire));
    if (taken <= 0) return failed("input");
    from_wire.remove_prefix(static_cast<std::size_t>(taken));
  }
  return {};
}

void Tls::take_output(std::string& to_wire) {
  char* bytes = nullptr;
  BIO* const out = SSL_get_wbio(ssl_.get());
  const long size = BIO_get_mem_data(out, &bytes);
  if (size > 0) to_wire.append(bytes, static_cast<std::size_t>(size));
  static_cast<void>(BIO_reset(out));
}

Result<Tls::Handshake> Tls::shake_hands(std::string_view from_wire, std::string& to_wire) {
  ERR_clear_error();
  if (const auto fed = feed(from_wire); !fed) return std::unexpected(fed.error());
  const int done = SSL_do_handshake(ssl_.get());
  take_output(to_wire);
  if (done == 1) return Handshake::done;
  const int why = SSL_get_error(ssl_.get(), done);
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return Handshake::needs_more;
  return failed("handshake");
}

Result<void> Tls::encrypt(std::string_view plain, std::string& to_wire) {
  ERR_clear_error();
  while (!plain.empty()) {
    const int taken = SSL_write(ssl_.get(), plain.data(), length_of(plain.substr(0, chunk)));
    if (taken <= 0) return failed("write");
    plain.remove_prefix(static_cast<std::size_t>(taken));
  }
  take_output(to_wire);
  return {};
}

Result<void> Tls::decrypt(std::string_view from_wire, std::string& plain, std::string& to_wire) {
  ERR_clear_error();
  if (const auto fed = feed(from_wire); !fed) return fed;
  std::array<char, chunk> buffer{};
  while (true) {
    const int size = SSL_read(ssl_.get(), buffer.data(), static_cast<int>(buffer.size()));
    if (size > 0) {
      plain.append(buffer.data(), static_cast<std::size_t>(size));
      continue;
    }
    take_output(to_wire);  // an answer to a key update
    const int why = SSL_get_error(ssl_.get(), size);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_ZERO_RETURN) return {};
    return failed("read");
  }
}

}  // namespace once::redis
