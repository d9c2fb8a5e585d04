// The contents of a mysql:// URL: servers, user, and TLS options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "store/server/store_url.hpp"

namespace once::mysql {

enum class SslMode : std::uint8_t {
  disabled,
  required,         // encrypted, without verifying the server
  verify_identity,  // encrypted, and the certificate must match the host
};

// Whether the server has stored procedures, and with them the other features of MySQL 8. Use `off` for servers that
// only speak the protocol, such as TiDB and Vitess, and for services that forbid procedures.
enum class Procedures : std::uint8_t { on, off };

struct Target {
  std::vector<StoreHost> hosts;  // tried in this order, beginning with the one that worked last
  std::string user;
  std::string password;
  std::string database;
  SslMode ssl_mode = SslMode::disabled;
  std::string ssl_ca;
  std::string ssl_cert;
  std::string ssl_key;
  Procedures procedures = Procedures::on;
};

// Parses the option's value; nullopt if it is neither on nor off.
std::optional<Procedures> parse_procedures(std::string_view value);

// A remote host whose certificate is not verified. Empty: there is none.
std::string unverified_host(const Target& target);

// Options: ssl-mode (disabled, required, verify-identity), ssl-ca, ssl-cert, ssl-key, procedures (on, off). An ssl-ca
// alone means verify-identity. The error never contains the password.
Result<Target> parse_target(const std::string& text);

}  // namespace once::mysql
