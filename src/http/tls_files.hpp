// Reads certificates and keys from PEM files, with errors and warnings as text. The text never contains key material.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

// Declared here so that OpenSSL's headers stay in the sources.
struct evp_pkey_st;
struct ssl_ctx_st;
struct ssl_session_st;
struct ssl_st;
struct x509_st;
struct X509_crl_st;

namespace once::http {

struct Freed {
  void operator()(evp_pkey_st* key) const;
  void operator()(ssl_ctx_st* context) const;
  void operator()(ssl_session_st* session) const;
  void operator()(x509_st* certificate) const;
  void operator()(X509_crl_st* list) const;
};

using CertificatePtr = std::unique_ptr<x509_st, Freed>;
using RevocationListPtr = std::unique_ptr<X509_crl_st, Freed>;
using KeyPtr = std::unique_ptr<evp_pkey_st, Freed>;

struct CertificateFile {
  std::string path;
  CertificatePtr leaf;
  std::vector<CertificatePtr> issuers;  // sent with it
};

struct KeyFile {
  std::string path;
  KeyPtr key;
};

using Warnings = std::vector<std::string>;

// Warns about a certificate that has expired or is not valid yet.
Result<CertificateFile> read_certificates(const std::string& path, Warnings& warnings);
// Warns about a file that other users can read. A key with a passphrase is refused, because a service cannot prompt for
// it.
Result<KeyFile> read_key(const std::string& path, Warnings& warnings);

// Revocation lists (CRLs), at least one. An expired list is refused, because it lacks later revocations.
Result<std::vector<RevocationListPtr>> read_revocation_lists(const std::string& path);

// The end of the last second that a certificate is valid in.
std::chrono::sys_seconds expires_at(const x509_st& certificate);

// The names that a certificate is for: the DNS names of its subjectAltName.
std::vector<std::string> dns_names(const x509_st& certificate);
// Whether such a name matches the host. A leading "*." stands for exactly one label.
bool name_fits(std::string_view name, std::string_view host);

// An error without the name of the setting, which the caller puts before it.
std::unexpected<Error> tls_error(std::string detail);
// The reason of the last OpenSSL error.
std::string openssl_reason();

}  // namespace once::http
