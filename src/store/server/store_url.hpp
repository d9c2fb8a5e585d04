// The URL of a server store: SCHEME://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]…][/DATABASE][?NAME=VALUE&…]. Percent
// escapes are decoded. PostgreSQL's library parses its URLs itself; here they are only checked for plausibility.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace once::store {

struct StoreHost {
  std::string name;        // an IPv6 address without brackets; empty: the driver's default
  std::uint16_t port = 0;  // 0: the driver's default

  bool operator==(const StoreHost&) const = default;
};

struct StoreUrl {
  std::string scheme;
  std::string user;
  std::string password;
  std::vector<StoreHost> hosts;  // at least one
  std::string database;          // without the slash
  std::vector<std::pair<std::string, std::string>> options;

  // The option's value, or null.
  const std::string* option(std::string_view name) const;
};

// Whether the host is this machine: a loopback address, "localhost" or a Unix socket.
bool is_local(std::string_view host);

// The error never contains the URL, because it may include a password.
Result<StoreUrl> parse_store_url(std::string_view text);

// An error if the file named by this option cannot be read. An empty path means no file, and is accepted.
Result<void> check_url_file(std::string_view option, const std::string& path);

// For logs and errors: passwords, and options that may contain one, are replaced by ***.
std::string without_password(std::string_view text);

}  // namespace once::store
