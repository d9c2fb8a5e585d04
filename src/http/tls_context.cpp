#include "http/tls_context.hpp"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/assert.hpp"
#include "core/headers.hpp"

namespace once::http {

namespace {

// Mozilla's "intermediate" list for TLS 1.2 without DHE: only forward secrecy and authenticated encryption. All TLS 1.3
// suites have both.
constexpr const char* ciphers =
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
    "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
// No finite-field groups, which cost a server many times as much.
constexpr std::string_view curves = "X25519:P-256:X448:P-521:P-384";

// In ALPN format: a length and a name.
constexpr std::array<unsigned char, 9> http_1_1 = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

int version_number(TlsVersion version) {
  switch (version) {
    case TlsVersion::tls_1_2: return TLS1_2_VERSION;
    case TlsVersion::tls_1_3: return TLS1_3_VERSION;
  }
  return TLS1_3_VERSION;
}

ContextPtr new_context(const SSL_METHOD* method, TlsVersion least) {
  ContextPtr context(SSL_CTX_new(method));
  ONCE_ASSERT(context != nullptr);
  SSL_CTX_set_min_proto_version(context.get(), version_number(least));
  ONCE_ASSERT(SSL_CTX_set_cipher_list(context.get(), ciphers) == 1);
  std::string groups(curves);
  ONCE_ASSERT(SSL_CTX_set1_groups_list(context.get(), groups.data()) == 1);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // Idle connections hold no buffers; a write ends after each record and may be repeated from another buffer; reads
  // take all available bytes instead of a record's header first.
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(context.get(), 1);
  return context;
}

Result<void> use(SSL_CTX& context, const CertificateFile& certificate, EVP_PKEY& key) {
  STACK_OF(X509)* chain = sk_X509_new_null();
  for (const CertificatePtr& issuer : certificate.issuers) sk_X509_push(chain, issuer.get());
  const int used = SSL_CTX_use_cert_and_key(&context, certificate.leaf.get(), &key, chain, 0);
  sk_X509_free(chain);
  if (used != 1) {
    return tls_error(fmt::format("the certificate in {} cannot be used: {}", certificate.path, openssl_reason()));
  }
  return {};
}

// A client that offers protocols without HTTP/1.1 would not understand the responses. One that offers none is served.
int on_protocols(SSL* /*ssl*/, const unsigned char** chosen, unsigned char* chosen_size, const unsigned char* offered,
                 unsigned int offered_size, void* /*nothing*/) {
  unsigned char* found = nullptr;
  const int result =
      SSL_select_next_proto(&found, chosen_size, http_1_1.data(), http_1_1.size(), offered, offered_size);
  *chosen = found;
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

// OpenSSL checks revocation in each handshake. Every authority in a client certificate's chain needs a list, and no
// client is accepted once a list has expired.
Result<void> refuse_revoked(SSL_CTX& context, const std::string& file) {
  if (file.empty()) return {};
  const auto lists = read_revocation_lists(file);
  if (!lists) return std::unexpected(lists.error());
  X509_STORE* store = SSL_CTX_get_cert_store(&context);
  for (const RevocationListPtr& list : *lists) {
    if (X509_STORE_add_crl(store, list.get()) != 1) {
      return tls_error(fmt::format("a revocation list in {} cannot be used: {}", file, openssl_reason()));
    }
  }
  X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
  // Disable resumption: a resumed session would not check the client's certificate again.
  SSL_CTX_set_options(&context, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(&context, 0);
  return {};
}

// The server name in the client's first message (RFC 6066 3).
std::string_view asked_name(SSL* ssl) {
  const unsigned char* data = nullptr;
  std::size_t size = 0;
  if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &data, &size) != 1) return {};
  // The list's length, the type of its first entry, its length, and the name.
  constexpr std::size_t before_name = 5;
  if (size <= before_name || data[2] != TLSEXT_NAMETYPE_host_name) return {};
  const std::size_t length = static_cast<std::size_t>(data[3]) << 8U | data[4];
  if (length > size - before_name) return {};
  return {reinterpret_cast<const char*>(data) + before_name, length};
}

// A session may only be resumed under its own name: a certificate that was verified for a.example must not be accepted
// for b.example. OpenSSL compares this context before it resumes a session, and looks up sessions before it reports the
// name.
int on_client_hello(SSL* ssl, int* /*alert*/, void* /*nothing*/) {
  std::string name = "once:";
  for (const char c : asked_name(ssl)) name.push_back(to_lower(c));
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(name.data()), name.size(), digest.data());
  return SSL_set_session_id_context(ssl, digest.data(), digest.size()) == 1 ? SSL_CLIENT_HELLO_SUCCESS
                                                                            : SSL_CLIENT_HELLO_ERROR;
}

// OpenSSL's own messages would be "BIO lib" or "no certificate or crl found".
std::unexpected<Error> no_authorities(const std::string& file) {
  if (::access(file.c_str(), R_OK) != 0) {
    return tls_error(fmt::format("cannot read {}: {}", file, std::generic_category().message(errno)));
  }
  return tls_error(fmt::format("there are no trusted certificates in {}: expected certificates in PEM format", file));
}

Result<void> ask_clients(SSL_CTX& context, const TlsServerSettings& settings) {
  const std::string& file = settings.client_ca;
  if (file.empty()) return {};
  STACK_OF(X509_NAME)* names = SSL_load_client_CA_file(file.c_str());
  if (names == nullptr || SSL_CTX_load_verify_file(&context, file.c_str()) != 1) {
    sk_X509_NAME_pop_free(names, X509_NAME_free);
    return no_authorities(file);
  }
  SSL_CTX_set_client_CA_list(&context, names);
  const int mode = settings.client_auth == ClientAuth::required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0;
  SSL_CTX_set_verify(&context, SSL_VERIFY_PEER | mode, nullptr);
  return refuse_revoked(context, settings.client_crl);
}

Result<ContextPtr> server_context(const TlsServerSettings& settings) {
  ContextPtr context = new_context(TLS_server_method(), settings.min_version);
  // Sessions are in tickets that clients keep; the ticket keys live as long as this context.
  constexpr std::array<unsigned char, 4> name = {'o', 'n', 'c', 'e'};
  SSL_CTX_set_session_id_context(context.get(), name.data(), name.size());
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_alpn_select_cb(context.get(), on_protocols, nullptr);
  if (const auto asked = ask_clients(*context, settings); !asked) return std::unexpected(asked.error());
  return context;
}

Result<std::vector<KeyFile>> read_keys(const std::vector<std::string>& files, Warnings& warnings) {
  std::vector<KeyFile> keys;
  for (const std::string& file : files) {
    auto key = read_key(file, warnings);
    if (!key) return std::unexpected(key.error());
    keys.push_back(std::move(*key));
  }
  return keys;
}

EVP_PKEY* key_of(const X509& certificate, const std::vector<KeyFile>& keys) {
  EVP_PKEY* wanted = X509_get0_pubkey(&certificate);
  const auto found =
      std::ranges::find_if(keys, [&](const KeyFile& file) { return EVP_PKEY_eq(wanted, file.key.get()) == 1; });
  return found != keys.end() ? found->key.get() : nullptr;
}

bool is_ip_address(const std::string& name) {
  std::array<unsigned char, 16> room{};
  return ::inet_pton(AF_INET, name.c_str(), room.data()) == 1 || ::inet_pton(AF_INET6, name.c_str(), room.data()) == 1;
}

}  // namespace

Result<TlsServerContext::Ptr> TlsServerContext::make(const TlsServerSettings& settings, Warnings& warnings) {
  if (settings.certificates.empty()) return tls_error("there is no certificate");
  const auto keys = read_keys(settings.keys.empty() ? settings.certificates : settings.keys, warnings);
  if (!keys) return std::unexpected(keys.error());
  auto made = std::make_shared<TlsServerContext>(Private{});
  for (const std::string& file : settings.certificates) {
    const auto certificate = read_certificates(file, warnings);
    if (!certificate) return std::unexpected(certificate.error());
    EVP_PKEY* key = key_of(*certificate->leaf, *keys);
    if (key == nullptr) return tls_error(fmt::format("no key matches the certificate in {}", file));
    made->certificates_.push_back({.file = file, .expires = expires_at(*certificate->leaf)});
    if (const auto added = made->add(*certificate, *key, settings); !added) return std::unexpected(added.error());
  }
  SSL_CTX* first = made->identities_.front().context.get();
  SSL_CTX_set_client_hello_cb(first, on_client_hello, nullptr);
  SSL_CTX_set_tlsext_servername_callback(first, on_server_name);
  SSL_CTX_set_tlsext_servername_arg(first, made.get());
  return made;
}

Result<void> TlsServerContext::add(const CertificateFile& certificate, EVP_PKEY& key,
                                   const TlsServerSettings& settings) {
  std::vector<std::string> names = dns_names(*certificate.leaf);
  const auto same = std::ranges::find(identities_, names, &Identity::names);
  if (same != identities_.end() && !names.empty()) return use(*same->context, certificate, key);
  auto context = server_context(settings);
  if (!context) return std::unexpected(context.error());
  identities_.push_back({.names = std::move(names), .context = std::move(*context)});
  return use(*identities_.back().context, certificate, key);
}

SSL_CTX* TlsServerContext::context_for(std::string_view host) const {
  SSL_CTX* by_wildcard = nullptr;
  for (const Identity& identity : identities_) {
    for (const std::string& name : identity.names) {
      if (!name_fits(name, host)) continue;
      if (!name.starts_with('*')) return identity.context.get();
      if (by_wildcard == nullptr) by_wildcard = identity.context.get();
    }
  }
  return by_wildcard != nullptr ? by_wildcard : identities_.front().context.get();
}

int TlsServerContext::on_server_name(SSL* ssl, int* /*alert*/, void* self) {
  const char* host = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
  if (host == nullptr) return SSL_TLSEXT_ERR_NOACK;
  SSL_set_SSL_CTX(ssl, static_cast<const TlsServerContext*>(self)->context_for(host));
  return SSL_TLSEXT_ERR_OK;
}

std::unique_ptr<TlsStream> TlsServerContext::accept() const {
  SSL* ssl = SSL_new(identities_.front().context.get());
  ONCE_ASSERT(ssl != nullptr);
  SSL_set_accept_state(ssl);
  return std::make_unique<TlsStream>(ssl, shared_from_this());
}

Result<TlsClientContext::Ptr> TlsClientContext::make(const TlsClientSettings& settings, Warnings& warnings) {
  auto made = std::make_shared<TlsClientContext>();
  made->context_ = new_context(TLS_client_method(), TlsVersion::tls_1_2);
  made->verifies_ = settings.verify;
  SSL_CTX* context = made->context_.get();
  SSL_CTX_set_alpn_protos(context, http_1_1.data(), http_1_1.size());
  SSL_CTX_set_verify(context, settings.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (settings.ca.empty()) {
    SSL_CTX_set_default_verify_paths(context);
  } else if (SSL_CTX_load_verify_file(context, settings.ca.c_str()) != 1) {
    return no_authorities(settings.ca);
  }
  if (!settings.certificate.empty()) {
    const auto certificate = read_certificates(settings.certificate, warnings);
    if (!certificate) return std::unexpected(certificate.error());
    const auto key = read_key(settings.key.empty() ? settings.certificate : settings.key, warnings);
    if (!key) return std::unexpected(key.error());
    if (EVP_PKEY_eq(X509_get0_pubkey(certificate->leaf.get()), key->key.get()) != 1) {
      return tls_error(fmt::format("the key in {} does not match the certificate in {}", key->path, certificate->path));
    }
    if (const auto used = use(*context, *certificate, *key->key); !used) return std::unexpected(used.error());
  }
  // Sessions are kept by TlsPeer, not in the context, so each loop has its own.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(context, TlsPeer::on_new_session);
  return made;
}

TlsPeer::TlsPeer(TlsClientContext::Ptr context, std::string_view name, const Log& log)
    : context_(std::move(context)), name_(name), is_address_(is_ip_address(name_)), log_(log) {
  while (name_.ends_with('.')) name_.pop_back();  // the DNS root; certificates never contain it
}

std::unique_ptr<TlsStream> TlsPeer::connect() {
  SSL* ssl = SSL_new(context_->get());
  ONCE_ASSERT(ssl != nullptr);
  SSL_set_connect_state(ssl);
  SSL_set_app_data(ssl, this);
  if (!is_address_) SSL_set_tlsext_host_name(ssl, name_.c_str());
  if (context_->verifies()) {
    X509_VERIFY_PARAM* param = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    const int set = is_address_ ? X509_VERIFY_PARAM_set1_ip_asc(param, name_.c_str())
                                : X509_VERIFY_PARAM_set1_host(param, name_.c_str(), name_.size());
    ONCE_ASSERT(set == 1);
  }
  if (session_ != nullptr) SSL_set_session(ssl, session_.get());
  return std::make_unique<TlsStream>(ssl, context_);
}

int TlsPeer::on_new_session(SSL* ssl, SSL_SESSION* session) {
  auto& self = *static_cast<TlsPeer*>(SSL_get_app_data(ssl));
  self.session_.reset(session);
  return 1;  // `session_` has taken over OpenSSL's reference
}

void TlsPeer::handshake_ended(const TlsStream& stream, Io how) {
  const std::string problem = how == Io::ok ? "" : how == Io::timed_out ? "it took too long" : stream.problem();
  if (!problem.empty() && problem != last_problem_) {
    log_.warn("TLS connection to a backend failed", {{"host", name_}, {"reason", problem}});
  }
  last_problem_ = problem;
}

}  // namespace once::http
