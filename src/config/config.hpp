// All settings of the process as plain data without behaviour. settings.hpp declares how each is written in YAML and on
// the command line, load.hpp reads the file, and prepare.hpp checks relations between settings.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "admin/ready_check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "claims/settings.hpp"
#include "core/jwt.hpp"
#include "gateway/settings.hpp"
#include "http/tls_settings.hpp"
#include "store/journal/settings.hpp"
#include "store/server/settings.hpp"

namespace once::config {

enum class Environment : std::uint8_t { development, production };

struct MemoryStoreSettings {
  std::size_t max_bytes = std::size_t{256} << 20U;
};

struct LogSettings {
  LogLevel level = LogLevel::info;
  LogFormat format = LogFormat::automatic;
  bool access = false;
  std::string access_file;  // empty: standard output
};

// Verification of the tokens that identify callers.
struct JwtSettings {
  std::vector<std::string> keys;         // files with public keys
  std::vector<std::string> secrets;      // files with a secret each
  std::string header = "Authorization";  // `Authorization` contains the token after "Bearer", any other header the
                                         // token alone
  JwtRules rules;
  std::shared_ptr<const JwtVerifier> verifier;  // set by prepare(); null without keys
};

struct Config {
  std::vector<std::string> include;       // other files, read with this one
  std::string listen = "127.0.0.1:8080";  // "off": only over TLS
  std::string admin = "127.0.0.1:8081";   // "off": no admin interface
  std::string admin_token;                // the token, or its source (secret_source_codec()); empty: none
  std::string admin_token_secret;         // set by prepare(); never logged
  std::vector<ReadyCheck> ready_checks = {ReadyCheck::store, ReadyCheck::descriptors};
  unsigned threads = 0;  // 0: one per core
  Environment environment = Environment::development;
  std::string store = "journal:";
  MemoryStoreSettings memory;
  journal::JournalSettings journal;
  ServerSettings server;
  std::vector<std::string> encryption_keys;  // files; the first key encrypts, all of them decrypt
  std::vector<std::string> sealing_secrets;  // their contents, set by prepare(); never logged
  std::string data_dir = "./once-data";
  std::string secret_file;
  std::string secret;                           // set by prepare(); never logged
  std::string errors_base = "urn:once:error:";  // problem `type` = this + code
  std::vector<Upstream> upstreams;              // the first is the default
  Policy defaults;
  std::vector<Route> routes;  // first match wins; if there is none, prepare() adds one for every request
  LogSettings log;
  std::string audit_log;                                 // a file; empty: operators' actions are only logged
  Duration count_keys_every = std::chrono::seconds(15);  // 0: never
  Limits limits;                                         // except max_connections, which is the next member
  std::string spool_folder;                              // limits.spool_directory or its default, set by prepare()
  std::size_t max_connections = 0;                       // 0: derived from the limit of file descriptors
  ClientTimeouts timeouts;
  PoolSettings pool;
  ClaimsSettings claims;
  JwtSettings jwt;
  std::vector<std::string> trusted_proxies;  // networks
  bool proxy_protocol_listen = false;
  bool proxy_protocol_tls = false;
  std::vector<std::string> proxy_protocol_from;       // networks
  std::vector<std::string> same_hosts;                // groups of names separated by spaces
  std::vector<std::string> upgrades = {"websocket"};  // protocols that clients may upgrade to
  http::TlsServerSettings tls;
  http::TlsClientSettings upstream_tls;
  Where defaults_where;
  // The position of each setting in its file, by name: "listen", "defaults.lease", "routes.0.lease",
  // "upstreams.NAME.queue", "claims.tokens.NAME". Settings that a flag has changed are not included.
  std::map<std::string, Where, std::less<>> places;
  std::set<std::string, std::less<>> refused;  // settings with an invalid value, by the same names
};

}  // namespace once::config
