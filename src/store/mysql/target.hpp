// The contents of a mysql:// URL: servers, user, and TLS options.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "store/server/store_url.hpp"

namespace once::mysql {

enum class SslMode : std::uint8_t {
  disabled,
  required,         // encrypted, without verifying the server
  verify_identity,  // encrypted, and the certificate must match the host
};

struct Target {
  std::vector<StoreHost> hosts;  // tried in this order, beginning with the one that worked last
  std::string user;
  std::string password;
  std::string database;
  SslMode ssl_mode = SslMode::disabled;
  std::string ssl_ca;
  std::string ssl_cert;
  std::string ssl_key;
};

// A remote host whose certificate is not verified. Empty: there is none.
std::string unverified_host(const Target& target);

// Options: ssl-mode (disabled, required, verify-identity), ssl-ca, ssl-cert, ssl-key. An ssl-ca alone means
// verify-identity. The error never holds the password.
Result<Target> parse_target(const std::string& text);

}  // namespace once::mysql
