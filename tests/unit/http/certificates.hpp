// Certificates of a test's own, as files.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "tests/unit/support/temporary_folder.hpp"

namespace once::http {

struct CertificateWish {
  std::string name;       // of the files, and the common name
  std::string alt_names;  // "DNS:a.test,IP:127.0.0.1"
  long valid_from = -3600;
  long valid_until = 3600;  // seconds from now
  bool authority = false;
};

// A folder with an authority in ca.pem, and what it signed: NAME.pem and NAME.key.
class Certificates {
 public:
  Certificates() { make({.name = "ca", .alt_names = "", .authority = true}); }
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;
  ~Certificates() {
    X509_free(authority_);
    EVP_PKEY_free(authority_key_);
  }

  std::string path(const std::string& file) const { return folder_.path() + "/" + file; }

  void make(const CertificateWish& wish) {
    EVP_PKEY* key = EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256");
    X509* certificate = X509_new();
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(certificate), wish.valid_from);
    X509_gmtime_adj(X509_getm_notAfter(certificate), wish.valid_until);
    X509_set_pubkey(certificate, key);
    X509_NAME* subject = X509_get_subject_name(certificate);
    add(subject, "O", "Test, Inc.");
    add(subject, "CN", wish.name);
    X509_set_issuer_name(certificate, wish.authority ? subject : X509_get_subject_name(authority_));
    extend(certificate, NID_basic_constraints, wish.authority ? "critical,CA:TRUE" : "critical,CA:FALSE");
    if (!wish.alt_names.empty()) extend(certificate, NID_subject_alt_name, wish.alt_names.c_str());
    EXPECT_GT(X509_sign(certificate, wish.authority ? key : authority_key_, EVP_sha256()), 0);
    write(wish.name, *certificate, *key);
    if (wish.authority) {
      authority_ = certificate;
      authority_key_ = key;
    } else {
      X509_free(certificate);
      EVP_PKEY_free(key);
    }
  }

  void write_text(const std::string& file, const std::string& text) const { std::ofstream(path(file)) << text; }

 private:
  static void add(X509_NAME* name, const char* part, const std::string& text) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.c_str());
    X509_NAME_add_entry_by_txt(name, part, MBSTRING_UTF8, bytes, -1, -1, 0);
  }
  static void extend(X509* certificate, int kind, const char* value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
    ASSERT_NE(extension, nullptr) << value;
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }
  void write(const std::string& name, X509& certificate, EVP_PKEY& key) const {
    BIO* out = BIO_new_file(path(name + ".pem").c_str(), "w");
    PEM_write_bio_X509(out, &certificate);
    BIO_free(out);
    out = BIO_new_file(path(name + ".key").c_str(), "w");
    PEM_write_bio_PrivateKey(out, &key, nullptr, nullptr, 0, nullptr, nullptr);
    BIO_free(out);
    ::chmod(path(name + ".key").c_str(), S_IRUSR | S_IWUSR);
  }

  const support::TemporaryFolder folder_;
  X509* authority_ = nullptr;
  EVP_PKEY* authority_key_ = nullptr;
  long serial_ = 0;
};

}  // namespace once::http
