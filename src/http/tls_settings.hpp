// What TLS needs to be told, as plain data. tls_context.hpp makes something that can be used of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/layers.hpp"

namespace once::http {

enum class TlsVersion : std::uint8_t { tls_1_2, tls_1_3 };

// What is asked of clients, if there is a client_ca.
enum class ClientAuth : std::uint8_t {
  optional,  // a certificate that is shown must be good
  required,
};

struct TlsServerSettings {
  std::string listen = "off";
  std::vector<std::string> certificates;  // PEM files: the certificate itself first, then those that vouch for it
  std::vector<std::string> keys;          // PEM files in any order; empty: with the certificates
  TlsVersion min_version = TlsVersion::tls_1_2;
  std::string client_ca;   // PEM file; empty: clients are not asked
  std::string client_crl;  // PEM file with a list of each of these authorities; empty: nothing is revoked
  ClientAuth client_auth = ClientAuth::required;
};

struct TlsClientSettings {
  std::string ca;  // PEM file; empty: whom the system trusts
  bool verify = true;
  std::string certificate;  // PEM file; empty: we have none to show
  std::string key;          // PEM file; empty: with the certificate
  TlsVersion min_version = TlsVersion::tls_1_2;
};

}  // namespace once::http
