// What the TLS connections of a listener, or to backends, have in common: certificates, whom to trust, which versions.
// Never changed once made: to read the files again is to make a new one, and connections keep the one they began with.
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

// For a listener. Which certificate is shown is decided by the name that the client asks for: one whose subjectAltName
// has it, or a wildcard of one label for it, or else the first.
class TlsServerContext : public std::enable_shared_from_this<TlsServerContext> {
  struct Private {};

 public:
  using Ptr = std::shared_ptr<const TlsServerContext>;
  static Result<Ptr> make(const TlsServerSettings& settings, Warnings& warnings);
  explicit TlsServerContext(Private) {}

  // For a connection that was accepted.
  std::unique_ptr<TlsStream> accept() const;

  // What it shows, for those who watch over it.
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

// For connections to backends.
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

// One backend as a loop's pool knows it: by which name it must prove itself, and the session to go on with, which
// spares both sides most of a handshake.
class TlsPeer {
 public:
  // The name is the URL's host: a DNS name, or an IP address without brackets.
  TlsPeer(TlsClientContext::Ptr context, std::string_view name, const Log& log);
  TlsPeer(const TlsPeer&) = delete;
  TlsPeer& operator=(const TlsPeer&) = delete;

  // For a connection that was made; it must not outlive this.
  std::unique_ptr<TlsStream> connect();
  // How that went. A failure is logged when it is another one than the last time.
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
