#include "http/tls_files.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <ctime>
#include <system_error>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/file_mode.hpp"
#include "base/text.hpp"

namespace once::http {

namespace {

struct FreedBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using BioPtr = std::unique_ptr<BIO, FreedBio>;

Result<BioPtr> open_file(const std::string& path) {
  errno = 0;
  BioPtr file(BIO_new_file(path.c_str(), "r"));
  if (!file) {
    return tls_error(fmt::format("cannot read {}: {}", path, std::generic_category().message(errno)));
  }
  return file;
}

// Never prompts on the terminal.
int no_passphrase(char* /*room*/, int /*size*/, int /*writing*/, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

std::string date_text(const ASN1_TIME* time) {
  const BioPtr out(BIO_new(BIO_s_mem()));
  if (!out || ASN1_TIME_print(out.get(), time) != 1) return "an unknown date";
  char* text = nullptr;
  const long size = BIO_get_mem_data(out.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

void check_dates(const X509& certificate, const std::string& path, Warnings& warnings) {
  const ASN1_TIME* begins = X509_get0_notBefore(&certificate);
  const ASN1_TIME* ends = X509_get0_notAfter(&certificate);
  if (X509_cmp_current_time(ends) < 0) {
    warnings.push_back(fmt::format("the certificate in {} expired on {}", path, date_text(ends)));
  }
  if (X509_cmp_current_time(begins) > 0) {
    warnings.push_back(fmt::format("the certificate in {} is not valid before {}", path, date_text(begins)));
  }
}

}  // namespace

void Freed::operator()(evp_pkey_st* key) const {
  EVP_PKEY_free(key);
}

void Freed::operator()(ssl_ctx_st* context) const {
  SSL_CTX_free(context);
}

void Freed::operator()(ssl_session_st* session) const {
  SSL_SESSION_free(session);
}

void Freed::operator()(x509_st* certificate) const {
  X509_free(certificate);
}

void Freed::operator()(X509_crl_st* list) const {
  X509_CRL_free(list);
}

std::chrono::sys_seconds expires_at(const X509& certificate) {
  std::tm broken_down{};
  ASN1_TIME_to_tm(X509_get0_notAfter(&certificate), &broken_down);
  const std::chrono::year_month_day day(std::chrono::year(broken_down.tm_year + 1900),
                                        std::chrono::month(static_cast<unsigned>(broken_down.tm_mon + 1)),
                                        std::chrono::day(static_cast<unsigned>(broken_down.tm_mday)));
  return std::chrono::sys_days(day) + std::chrono::hours(broken_down.tm_hour) +
         std::chrono::minutes(broken_down.tm_min) + std::chrono::seconds(broken_down.tm_sec);
}

std::unexpected<Error> tls_error(std::string detail) {
  ERR_clear_error();
  return std::unexpected(Error{.source = ErrorSource::config, .retryable = Retryable::no, .detail = std::move(detail)});
}

std::string openssl_reason() {
  const unsigned long code = ERR_peek_last_error();
  if (ERR_SYSTEM_ERROR(code)) return std::generic_category().message(ERR_GET_REASON(code));
  const char* text = ERR_reason_error_string(code);
  return text != nullptr ? text : "unknown reason";
}

Result<CertificateFile> read_certificates(const std::string& path, Warnings& warnings) {
  const auto file = open_file(path);
  if (!file) return std::unexpected(file.error());
  CertificateFile read{.path = path, .leaf = nullptr, .issuers = {}};
  read.leaf.reset(PEM_read_bio_X509(file->get(), nullptr, nullptr, nullptr));
  if (!read.leaf) return tls_error(fmt::format("there is no PEM certificate in {}", path));
  while (X509* issuer = PEM_read_bio_X509(file->get(), nullptr, nullptr, nullptr)) read.issuers.emplace_back(issuer);
  // The list must end with the file, not with a damaged certificate.
  if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
    return tls_error(fmt::format("a certificate in {} is damaged: {}", path, openssl_reason()));
  }
  ERR_clear_error();
  check_dates(*read.leaf, path, warnings);
  return read;
}

Result<std::vector<RevocationListPtr>> read_revocation_lists(const std::string& path) {
  const auto file = open_file(path);
  if (!file) return std::unexpected(file.error());
  std::vector<RevocationListPtr> lists;
  while (X509_CRL* list = PEM_read_bio_X509_CRL(file->get(), nullptr, nullptr, nullptr)) lists.emplace_back(list);
  if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
    return tls_error(fmt::format("a revocation list in {} is damaged: {}", path, openssl_reason()));
  }
  if (lists.empty()) return tls_error(fmt::format("there is no PEM revocation list (X509 CRL) in {}", path));
  for (const RevocationListPtr& list : lists) {
    const ASN1_TIME* next = X509_CRL_get0_nextUpdate(list.get());
    const ASN1_TIME* last = X509_CRL_get0_lastUpdate(list.get());
    if (next != nullptr && X509_cmp_current_time(next) < 0) {
      return tls_error(fmt::format("a revocation list in {} expired on {}: get a new one from its authority", path,
                                   date_text(next)));
    }
    if (X509_cmp_current_time(last) > 0) {
      return tls_error(fmt::format("a revocation list in {} is not valid before {}", path, date_text(last)));
    }
  }
  ERR_clear_error();
  return lists;
}

Result<KeyFile> read_key(const std::string& path, Warnings& warnings) {
  const auto file = open_file(path);
  if (!file) return std::unexpected(file.error());
  bool passphrase_asked = false;
  KeyFile read{.path = path, .key = nullptr};
  read.key.reset(PEM_read_bio_PrivateKey(file->get(), nullptr, no_passphrase, &passphrase_asked));
  if (passphrase_asked) {
    return tls_error(fmt::format("the key in {} has a passphrase; remove it with: openssl pkey -in {}", path, path));
  }
  if (!read.key) return tls_error(fmt::format("there is no PEM private key in {}", path));
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0) {
    const std::string protect = how_to_protect(path, status, FileReader::of_this_process());
    if (!protect.empty()) warnings.push_back(fmt::format("other users can read the key in {}; run: {}", path, protect));
  }
  ERR_clear_error();
  return read;
}

std::vector<std::string> dns_names(const X509& certificate) {
  std::vector<std::string> names;
  auto* all = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(all); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(all, i);
    if (name->type != GEN_DNS) continue;
    const unsigned char* text = ASN1_STRING_get0_data(name->d.dNSName);
    const int size = ASN1_STRING_length(name->d.dNSName);
    names.emplace_back(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
  }
  GENERAL_NAMES_free(all);
  ERR_clear_error();
  return names;
}

bool name_fits(std::string_view name, std::string_view host) {
  if (!name.starts_with("*.")) return iequals(name, host);
  const std::size_t dot = host.find('.');
  return dot != std::string_view::npos && dot > 0 && iequals(host.substr(dot), name.substr(1));
}

}  // namespace once::http
