// What all TLS connections of a listener, or to backends, share: certificates, trusted authorities, versions.
// Immutable: a reload makes a new context, and existing connections keep the old one.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "http/socket.hpp"
#include "http/tls_files.hpp"
#include "http/tls_settings.hpp"
#include "http/tls_stream.hpp"

namespace once::http {

using ContextPtr = std::unique_ptr<ssl_ctx_st, Freed>;

// TLS for a listener. The certificate is chosen by the requested server name (SNI): one whose subjectAltName matches
// it, also by wildcard, or else the first.
class TlsServerContext : public std::enable_shared_from_this<TlsServerContext> {
  struct Private {};

 public:
  using Ptr = std::shared_ptr<const TlsServerContext>;
  static Result<Ptr> make(const TlsServerSettings& settings, Warnings& warnings);
  explicit TlsServerContext(Private) {}

  // A stream for an accepted connection.
  std::unique_ptr<TlsStream> accept() const;

  // A certificate, for metrics and alerts.
  struct Shown {
    std::string file;
    std::chrono::sys_seconds expires;
  };
  const std::vector<Shown>& certificates() const { return certificates_; }

 private:
  // Certificates for the same names, with different kinds of keys.
  struct Identity {
    std::vector<std::string> names;
    ContextPtr context;
  };

  Result<void> add(const CertificateFile& certificate, evp_pkey_st& key, const TlsServerSettings& settings);
  ssl_ctx_st* context_for(std::string_view host) const;
  static int on_server_name(ssl_st* ssl, int* alert, void* self);

  std::vector<Identity> identities_;
  std::vector<Shown> certificates_;
};

// TLS for connections to backends.
class TlsClientContext {
 public:
  using Ptr = std::shared_ptr<const TlsClientContext>;
  static Result<Ptr> make(const TlsClientSettings& settings, Warnings& warnings);

  ssl_ctx_st* get() const { return context_.get(); }
  bool verifies() const { return verifies_; }

 private:
  ContextPtr context_;
  bool verifies_ = true;
};

// TLS to one backend for a loop's pool: the name that its certificate must have, and the session to resume, which saves
// most of a handshake.
class TlsPeer {
 public:
  // The name is the URL's host: a DNS name, or an IP address without brackets.
  TlsPeer(TlsClientContext::Ptr context, std::string_view name, const Log& log);
  TlsPeer(const TlsPeer&) = delete;
  TlsPeer& operator=(const TlsPeer&) = delete;

  // A stream for a new connection. It must not outlive this.
  std::unique_ptr<TlsStream> connect();
  // Reports the result of a handshake. A failure is logged unless it equals the last one.
  void handshake_ended(const TlsStream& stream, Io how);

 private:
  friend class TlsClientContext;
  static int on_new_session(ssl_st* ssl, ssl_session_st* session);

  TlsClientContext::Ptr context_;
  std::string name_;
  bool is_address_ = false;
  const Log& log_;
  std::unique_ptr<ssl_session_st, Freed> session_;
  std::string last_problem_;
};

}  // namespace once::http
