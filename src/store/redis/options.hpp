// The options of a redis:// or rediss:// URL.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "store/server/store_url.hpp"

namespace once::redis {

enum class Mode : std::uint8_t {
  single,    // one server, or several, one of which is the master
  sentinel,  // the hosts are sentinels, which know the master
  cluster,   // the hosts are some of the nodes of a Redis Cluster
};

struct Credentials {
  std::string user;  // empty: the default user
  std::string password;
};

struct TlsFiles {
  bool on = false;     // rediss://
  bool verify = true;  // insecure=1 turns it off
  std::string ca;      // PEM; empty: the system's
  std::string cert;    // PEM, used with `key`: for servers that require one
  std::string key;
};

struct Options {
  Mode mode = Mode::single;
  std::vector<StoreHost> hosts;  // with ports
  Credentials login;
  Credentials sentinel_login;
  std::string sentinel_name;
  std::uint64_t database = 0;
  std::string prefix = "once:";  // of keys and of the channel
  TlsFiles tls;
};

// The error never contains a password.
Result<Options> parse_options(std::string_view text);

// host:port, and [address]:port for IPv6.
std::string name_of(const StoreHost& host);

}  // namespace once::redis
