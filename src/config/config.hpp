// Every setting of the process as plain data. settings.hpp declares how each is written in YAML and on the command
// line; load.hpp reads the file; finish.hpp checks what belongs together. Nothing here has behaviour.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "claims/settings.hpp"
#include "core/jwt.hpp"
#include "gateway/settings.hpp"
#include "http/tls_settings.hpp"
#include "store/journal/settings.hpp"
#include "store/server/settings.hpp"

namespace once {

enum class Environment : std::uint8_t { development, production };

struct MemoryStoreSettings {
  std::size_t max_bytes = std::size_t{256} << 20U;
};

struct LogSettings {
  LogLevel level = LogLevel::info;
  LogFormat format = LogFormat::automatic;
  bool access = false;
};

// Tokens that say who a key belongs to.
struct JwtSettings {
  std::vector<std::string> keys;         // files with public keys
  std::vector<std::string> secrets;      // files with a secret each
  std::string header = "Authorization";  // there behind the scheme Bearer, in any other the token alone
  JwtRules rules;
  std::shared_ptr<const JwtVerifier> verifier;  // filled in by finish(); null without keys
};

struct Config {
  std::string listen = "127.0.0.1:8080";  // "off": only over TLS
  std::string admin = "127.0.0.1:8081";   // "off": no admin interface
  Where admin_where;
  Where environment_where;
  std::string admin_token;         // where it is found, or itself; empty: none
  std::string admin_token_secret;  // filled in by finish(); never logged
  unsigned threads = 0;            // 0: one per core
  Environment environment = Environment::development;
  std::string store = "journal:";
  MemoryStoreSettings memory;
  JournalSettings journal;
  ServerSettings server;
  std::vector<std::string> encryption_keys;  // files; the first one seals, all of them open
  std::vector<std::string> sealing_secrets;  // what is in them, filled in by finish(); never logged
  std::string data_dir = "./once-data";
  std::string secret_file;
  std::string secret;                           // filled in by finish(); never logged
  std::string errors_base = "urn:once:error:";  // problem `type` = this + code
  std::vector<Upstream> upstreams;              // the first is the default one
  Policy defaults;
  std::vector<Route> routes;  // first match wins; finish() makes one for everything when there is none
  LogSettings log;
  std::string audit_log;                                 // a file; empty: what operators do is on the log only
  Duration count_keys_every = std::chrono::seconds(15);  // 0: never
  Limits limits;
  ClientTimeouts timeouts;
  PoolSettings pool;
  ClaimsSettings claims;
  JwtSettings jwt;
  std::vector<std::string> trusted_proxies;           // networks
  std::vector<std::string> same_hosts;                // groups: names with spaces between them
  std::vector<std::string> upgrades = {"websocket"};  // protocols that a client may switch to
  http::TlsServerSettings tls;
  http::TlsClientSettings upstream_tls;
  Where defaults_where;
};

}  // namespace once
