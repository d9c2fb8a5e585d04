// Certificates and keys from PEM files, and what is to be said of them: what is wrong in words, and what only may be.
// Neither ever holds anything of a key.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

// OpenSSL's own headers stay in the sources.
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
  std::vector<CertificatePtr> issuers;  // that are sent with it
};

struct KeyFile {
  std::string path;
  KeyPtr key;
};

using Warnings = std::vector<std::string>;

// Warns of a certificate that is not valid today.
Result<CertificateFile> read_certificates(const std::string& path, Warnings& warnings);
// Warns of a file that others can read. One with a passphrase is refused: nobody is there to type it.
Result<KeyFile> read_key(const std::string& path, Warnings& warnings);

// Lists of revoked certificates, one at least. One that is not valid today is refused: nobody knows what has been
// revoked since.
Result<std::vector<RevocationListPtr>> read_revocation_lists(const std::string& path);

// The end of the last second that a certificate is valid in.
std::chrono::sys_seconds expires_at(const x509_st& certificate);

// The names that a certificate is for: the DNS names of its subjectAltName.
std::vector<std::string> dns_names(const x509_st& certificate);
// Whether such a name, which may begin with "*." for any one label, is this host's.
bool name_fits(std::string_view name, std::string_view host);

// "tls.certificates" or so is told by the caller; this is what goes behind it.
std::unexpected<Error> tls_error(std::string detail);
// Of the last OpenSSL call: its own words.
std::string openssl_reason();

}  // namespace once::http
