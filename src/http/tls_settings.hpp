// TLS settings, as plain data. tls_context.hpp makes contexts from them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/layers.hpp"

namespace once::http {

enum class TlsVersion : std::uint8_t { tls_1_2, tls_1_3 };

// Whether clients need a certificate, if client_ca is set.
enum class ClientAuth : std::uint8_t {
  optional,  // a client may send none; one that is sent must be valid
  required,
};

struct TlsServerSettings {
  std::string listen = "off";
  std::vector<std::string> certificates;  // PEM files: the certificate first, then its issuers
  std::vector<std::string> keys;          // PEM files in any order; empty: in the files of the certificates
  TlsVersion min_version = TlsVersion::tls_1_2;
  std::string client_ca;   // PEM file; empty: clients are not asked for certificates
  std::string client_crl;  // PEM file with a revocation list of each authority; empty: nothing is revoked
  ClientAuth client_auth = ClientAuth::required;
};

struct TlsClientSettings {
  std::string ca;  // PEM file; empty: the system's authorities
  bool verify = true;
  std::string certificate;  // PEM file; empty: none is sent
  std::string key;          // PEM file; empty: in the certificate's file
};

}  // namespace once::http
