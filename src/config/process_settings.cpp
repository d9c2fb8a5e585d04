// The settings of the process, and those of a route that are not part of its policy.
#include "config/settings.hpp"

namespace once::config {

namespace {

using namespace std::chrono_literals;

Parsed<void> set_claims_token(Config& config, const Values& name_and_file) {
  const std::string& tenant = name_and_file.at(0);
  if (auto checked = check_plain_name(tenant); !checked) return checked;
  const auto file = path_codec().parse(name_and_file.at(1));
  if (!file) return std::unexpected(file.error());
  auto& tokens = config.claims.tokens;
  const auto known = std::ranges::find(tokens, tenant, &ClaimsToken::tenant);
  if (known != tokens.end()) {
    known->file = *file;
  } else if (tokens.size() == most_list_items) {
    return std::unexpected(fmt::format("at most {} tokens", most_list_items));
  } else {
    tokens.push_back({.tenant = tenant, .file = *file, .token = ""});
  }
  return {};
}

Setting<Config> claims_tokens_setting() {
  return {
      .name = "claims.tokens",
      .shape = Shape::map,
      .expected = "names with the path of a file each",
      .range = "",
      .help =
          "The tenants of the claims API: each name with the file of its token, at least 16 bytes. Required unless "
          "it listens on a Unix socket.",
      .set = set_claims_token,
      .get = [](const Config& config) -> Values {
        Values values;
        for (const ClaimsToken& token : config.claims.tokens) {
          values.push_back(fmt::format("{}: {}", token.tenant, token.file));
        }
        return values;
      },
      .syntax = path_codec().syntax,
  };
}

Settings<Config> claims_settings() {
  return {
      one<Config>(
          "claims.listen", [](auto& c) -> auto& { return c.claims.listen; }, listener_or_off_codec(),
          "The address of the claims API, for work that is not an HTTP request. A Unix socket is accessible to its "
          "user and group."),
      claims_tokens_setting(),
      one<Config>(
          "claims.max_body", [](auto& c) -> auto& { return c.claims.max_body; }, size_codec({one_kib, 64 * one_mib}),
          "The largest request to the claims API, and so the largest value it stores. Also the limit of one claim's "
          "progress: the bytes of its pieces, and 128 more for each."),
      one<Config>(
          "claims.max_connections", [](auto& c) -> auto& { return c.claims.max_connections; },
          number_codec({1, 100'000}), "Concurrent connections to the claims API."),
      one<Config>(
          "claims.max_waiting", [](auto& c) -> auto& { return c.claims.max_waiting; }, number_codec({0, 100'000}),
          "Concurrent long polls. More are answered at once."),
  };
}

Settings<Config> caller_settings() {
  return {
      list<Config>(
          "jwt.keys", [](auto& c) -> auto& { return c.jwt.keys; }, path_codec(), "",
          "Files with the public keys that verify tokens: PEM, or a JSON Web Key Set. RSA keys (2048 bits and more) "
          "are for RS256, P-256 for ES256, Ed25519 for EdDSA."),
      list<Config>(
          "jwt.secrets", [](auto& c) -> auto& { return c.jwt.secrets; }, path_codec(), "",
          "Files with one secret each, at least 32 bytes, that verify HS256 tokens."),
      one<Config>(
          "jwt.issuer", [](auto& c) -> auto& { return c.jwt.rules.issuer; }, optional_word_codec(1000),
          "The required iss of a token. Empty: any."),
      list<Config>(
          "jwt.audience", [](auto& c) -> auto& { return c.jwt.rules.audience; }, word_codec(1000), "",
          "A token's aud must contain one of these. Empty: aud is not checked."),
      one<Config>(
          "jwt.require_exp", [](auto& c) -> auto& { return c.jwt.rules.expiry; },
          choice_codec<Required>({{"yes", Required::yes}, {"no", Required::no}}),
          "Whether a token without exp is refused."),
      one<Config>(
          "jwt.header", [](auto& c) -> auto& { return c.jwt.header; }, header_name_codec(),
          "The header with the token: Authorization with the scheme Bearer, or another header with the token as its "
          "whole value."),
  };
}

Codec<http::TlsVersion> tls_version_codec() {
  return choice_codec<http::TlsVersion>({{"1.2", http::TlsVersion::tls_1_2}, {"1.3", http::TlsVersion::tls_1_3}});
}

Settings<Config> tls_settings() {
  return {
      one<Config>(
          "tls.listen", [](auto& c) -> auto& { return c.tls.listen; }, address_or_off_codec(),
          "The address for clients over TLS, in addition to listen or instead of it."),
      list<Config>(
          "tls.certificates", [](auto& c) -> auto& { return c.tls.certificates; }, path_codec(), "",
          "PEM files, each with a certificate followed by its chain. The name that the client requests selects one; "
          "the first is used if none matches."),
      list<Config>(
          "tls.keys", [](auto& c) -> auto& { return c.tls.keys; }, path_codec(), "",
          "PEM files with the private keys, in any order. Empty: each key is in the file of its certificate."),
      one<Config>(
          "tls.min_version", [](auto& c) -> auto& { return c.tls.min_version; }, tls_version_codec(),
          "The oldest TLS version that clients may use."),
      one<Config>(
          "tls.client_ca", [](auto& c) -> auto& { return c.tls.client_ca; }, optional_path_codec(),
          "A PEM file with the authorities for client certificates. Empty: clients are not asked for a certificate."),
      one<Config>(
          "tls.client_crl", [](auto& c) -> auto& { return c.tls.client_crl; }, optional_path_codec(),
          "With tls.client_ca: a PEM file with the revocation lists (CRLs) of these authorities, one for each. "
          "Revoked certificates are refused, and so are all certificates of an authority whose list is missing or "
          "has expired. A reload reads the file again."),
      one<Config>(
          "tls.client_auth", [](auto& c) -> auto& { return c.tls.client_auth; },
          choice_codec<http::ClientAuth>(
              {{"optional", http::ClientAuth::optional}, {"required", http::ClientAuth::required}}),
          "With tls.client_ca: whether a client certificate is required. An invalid one is always refused."),
      one<Config>(
          "upstream_tls.ca", [](auto& c) -> auto& { return c.upstream_tls.ca; }, optional_path_codec(),
          "A PEM file with the authorities that verify https upstreams. Empty: the system's authorities."),
      one<Config>(
          "upstream_tls.verify", [](auto& c) -> auto& { return c.upstream_tls.verify; }, yes_no_codec(),
          "Whether to verify that https upstreams are the host of their URL. no: an attacker on the network can read "
          "and change everything."),
      one<Config>(
          "upstream_tls.certificate", [](auto& c) -> auto& { return c.upstream_tls.certificate; },
          optional_path_codec(), "A PEM file with the client certificate for these upstreams. Empty: none."),
      one<Config>(
          "upstream_tls.key", [](auto& c) -> auto& { return c.upstream_tls.key; }, optional_path_codec(),
          "A PEM file with its private key. Empty: the key is in the file of the certificate."),
  };
}

Settings<Config> basic_settings() {
  return {
      list<Config>(
          "include", [](auto& c) -> auto& { return c.include; }, path_codec(), "",
          "Other files to read with this one, such as conf.d/*.yaml: paths, or patterns with * ? and [, relative to "
          "the folder of this file. See several files."),
      one<Config>(
          "listen", [](auto& c) -> auto& { return c.listen; }, address_or_off_codec(),
          "The address for clients. Port 0 picks a free port. off: only tls.listen."),
      one<Config>(
          "admin", [](auto& c) -> auto& { return c.admin; }, address_or_off_codec(),
          "The address for health, metrics and the dashboard. admin_token is required unless this is a loopback "
          "address, and always with environment: production."),
      one<Config>(
          "admin_token", [](auto& c) -> auto& { return c.admin_token; }, secret_source_codec(),
          "The token for everything but health: a bearer token, or the login to the dashboard. At least 16 bytes. "
          "Empty: every client on loopback has full access; not allowed with environment: production."),
      list<Config>(
          "readyz.checks", [](auto& c) -> auto& { return c.ready_checks; },
          choice_codec<ReadyCheck>({{"store", ReadyCheck::store},
                                    {"descriptors", ReadyCheck::descriptors},
                                    {"room", ReadyCheck::room},
                                    {"upstreams", ReadyCheck::upstreams}}),
          "", "What /readyz checks. See readiness checks."),
      one<Config>(
          "threads", [](auto& c) -> auto& { return c.threads; }, threads_codec(),
          "Threads that serve requests. auto is one per core."),
      one<Config>(
          "environment", [](auto& c) -> auto& { return c.environment; },
          choice_codec<Environment>(
              {{"development", Environment::development}, {"production", Environment::production}}),
          "production requires a secret and, unless admin is off, admin_token. In development a secret is generated "
          "and kept in data_dir."),
      one<Config>(
          "store", [](auto& c) -> auto& { return c.store; }, store_codec(),
          "Where records are kept. The default folder of the journal is in data_dir. In YAML, write a bare memory: "
          "or journal: in quotes or without its colon. Put a URL with a password into a file: Once never shows it, "
          "but a process list shows command lines."),
  };
}

Settings<Config> store_settings() {
  return {
      one<Config>(
          "memory.max_bytes", [](auto& c) -> auto& { return c.memory.max_bytes; }, size_codec({one_mib, one_tib}),
          "Memory for the records of the memory store. When it is full, finished responses of the address or verified "
          "caller that has the most are evicted, least recently used first. One response takes half of it at most."),
      one<Config>(
          "journal.sync", [](auto& c) -> auto& { return c.journal.sync; },
          choice_codec<journal::Sync>({{"always", journal::Sync::always},
                                       {"interval", journal::Sync::interval},
                                       {"never", journal::Sync::never}}),
          "When records are forced to disk. always: before the backend or the client sees anything, so nothing is "
          "lost. interval and never: a crash of Once loses nothing, but on power loss or a system crash the records "
          "of the last second, or all unwritten ones, are lost, and their retries execute again."),
      one<Config>(
          "journal.max_disk", [](auto& c) -> auto& { return c.journal.max_disk; }, size_codec({4 * one_mib, one_tib}),
          "The total size of the journal's files. At the limit new keys get 503 store-full until others expire."),
      one<Config>(
          "journal.max_memory", [](auto& c) -> auto& { return c.journal.max_memory; }, size_codec({one_mib, one_tib}),
          "Memory for the journal's index (34 to 48 bytes per key) and its cache. At the limit new keys get 503 "
          "store-full until others expire."),
      one<Config>(
          "journal.cache", [](auto& c) -> auto& { return c.journal.cache_bytes; }, size_codec({0, one_tib}),
          "The part of journal.max_memory for the latest records. Their retries are answered without reading the "
          "disk."),
      one<Config>(
          "server.connections", [](auto& c) -> auto& { return c.server.connections; }, number_codec({1, 64}),
          "Connections to the server of a redis, postgres or mysql store, or to each node of a Redis Cluster. Each "
          "carries one batch at a time. Listing and counting keys uses one more connection, and so does the sweep of "
          "postgres and mysql."),
      one<Config>(
          "server.connect_timeout", [](auto& c) -> auto& { return c.server.connect_timeout; },
          duration_codec({100ms, 1min}), "How long a connection attempt may take."),
      one<Config>(
          "server.timeout", [](auto& c) -> auto& { return c.server.timeout; }, duration_codec({100ms, 5min}),
          "How long one batch may take, including connecting and retries. After that Once does not know whether the "
          "batch was written, and asks again with the same nonces to find out. redis.wait_replicas may add a fifth."),
      one<Config>(
          "redis.wait_replicas", [](auto& c) -> auto& { return c.server.wait_replicas; }, number_codec({0, 10}),
          "How many replicas must have a write before a client sees it. With 0 a failover may lose the last writes. "
          "After a fifth of server.timeout the request gets 503."),
      list<Config>(
          "encryption.keys", [](auto& c) -> auto& { return c.encryption_keys; }, path_codec(), "",
          "Files with one secret each, at least 16 bytes (make one with: openssl rand -hex 32). Recorded responses "
          "are encrypted with the first key (AES-256-GCM) and decrypted with any of them. To rotate keys, put a new "
          "one first, and remove the old one when all its records have expired. Empty: not encrypted."),
  };
}

Settings<Config> file_settings() {
  return {
      one<Config>(
          "data_dir", [](auto& c) -> auto& { return c.data_dir; }, path_codec(), "The folder for Once's own files."),
      one<Config>(
          "secret_file", [](auto& c) -> auto& { return c.secret_file; }, optional_path_codec(),
          "A file with the secret for operation ids, at least 16 bytes. The environment variable ONCE_SECRET takes "
          "precedence. All gateways on one store need the same secret. If it changes, all keys are lost."),
      one<Config>(
          "errors_base", [](auto& c) -> auto& { return c.errors_base; }, word_codec(200),
          "The prefix of the type of a problem document. The name of the error follows."),
      upstreams_setting(),
      list<Config>(
          "trusted_proxies", [](auto& c) -> auto& { return c.trusted_proxies; }, network_codec(), "",
          "Addresses of proxies in front of Once. Only their X-Forwarded-For, X-Forwarded-Host, Forwarded and "
          "similar headers are believed; from other peers these are ignored or dropped. unix means connections "
          "through a Unix socket."),
      one<Config>(
          "proxy_protocol.listen", [](auto& c) -> auto& { return c.proxy_protocol_listen; }, yes_no_codec(),
          "Whether connections to listen begin with a PROXY protocol header (version 1 or 2), in which a TCP load "
          "balancer sends the client's address. Connections without a valid header are closed."),
      one<Config>(
          "proxy_protocol.tls", [](auto& c) -> auto& { return c.proxy_protocol_tls; }, yes_no_codec(),
          "The same for tls.listen. The header comes before the TLS handshake."),
      list<Config>(
          "proxy_protocol.from", [](auto& c) -> auto& { return c.proxy_protocol_from; }, network_codec(), "",
          "Addresses of these load balancers. Connections from other addresses to such a port are refused. The "
          "client address in the header counts as the peer for limits, logs, trusted_proxies and backends."),
      list<Config>(
          "same_hosts", [](auto& c) -> auto& { return c.same_hosts; }, same_hosts_codec(), "",
          "A key belongs to the host of its request. Hosts in one item share their keys: a retry at another host of "
          "the item gets the same response. The first name of an item goes into operation ids."),
      list<Config>(
          "upgrades", [](auto& c) -> auto& { return c.upgrades; }, protocol_codec(), "none",
          "Protocols that a client may switch to with Upgrade. Any other Upgrade header is ignored, and the request "
          "continues as HTTP/1.1."),
  };
}

Settings<Config> log_settings() {
  return {
      one<Config>(
          "log.level", [](auto& c) -> auto& { return c.log.level; },
          choice_codec<LogLevel>({{"debug", LogLevel::debug},
                                  {"info", LogLevel::info},
                                  {"warn", LogLevel::warn},
                                  {"error", LogLevel::error},
                                  {"off", LogLevel::off}}),
          "The lowest level to log. The log goes to stderr."),
      one<Config>(
          "log.format", [](auto& c) -> auto& { return c.log.format; },
          choice_codec<LogFormat>(
              {{"auto", LogFormat::automatic}, {"text", LogFormat::text}, {"json", LogFormat::json}}),
          "The log format. auto is text on a terminal and JSON lines elsewhere."),
      one<Config>(
          "log.access", [](auto& c) -> auto& { return c.log.access; }, yes_no_codec(),
          "Whether requests are written to the access log. Keys, bodies and query strings are never logged."),
      one<Config>(
          "log.access_file", [](auto& c) -> auto& { return c.log.access_file; }, optional_path_codec(),
          "The file of the access log. SIGUSR1 reopens it. Empty: stdout."),
      one<Config>(
          "audit_log", [](auto& c) -> auto& { return c.audit_log; }, optional_path_codec(),
          "A file for an audit trail of what operators do to keys, in addition to the log. An action that cannot be "
          "written to it is not done. Empty: the log only."),
      one<Config>(
          "keys.count_every", [](auto& c) -> auto& { return c.count_keys_every; }, duration_codec({0s, 24h}),
          "How often the keys in the store are counted for the metric once_keys. A count uses at most a hundredth of "
          "the time. 0s: never, and the metric is absent."),
  };
}

Settings<Config> limit_settings() {
  return {
      one<Config>(
          "limits.max_connections", [](auto& c) -> auto& { return c.max_connections; },
          auto_or_number_codec({1, 1'000'000}),
          "Concurrent client connections of the process. auto is 10000, or fewer if there are not enough file "
          "descriptors for as many backend connections as well."),
      one<Config>(
          "limits.max_connections_per_address", [](auto& c) -> auto& { return c.limits.max_connections_per_address; },
          number_codec({0, 1'000'000}),
          "Concurrent client connections from one IPv4 address or one IPv6 network of 64 bits. 0: no limit. Behind a "
          "proxy all connections come from one address."),
      one<Config>(
          "limits.max_in_flight", [](auto& c) -> auto& { return c.limits.max_in_flight; },
          number_codec({1, 10'000'000}),
          "Concurrent keyed requests of the process. More get 503 overloaded. Requests without a key are not limited."),
      one<Config>(
          "limits.max_body_memory", [](auto& c) -> auto& { return c.limits.max_body_memory; },
          size_codec({one_mib, one_tib}),
          "Memory of the process for bodies that are held as a whole: keyed requests, writes that "
          "conditional.if_match covers, the claims API, and responses that clients have not read yet. Requests and "
          "replays that do not fit get 503 overloaded. Responses to be recorded may use a quarter more; one that "
          "still does not fit is recorded without its body."),
      one<Config>(
          "limits.max_spool", [](auto& c) -> auto& { return c.limits.max_spool; }, size_codec({0, one_tib}),
          "Disk space of the process for keyed requests larger than max_request_body. Requests that do not fit get "
          "503 overloaded."),
      one<Config>(
          "limits.spool_directory", [](auto& c) -> auto& { return c.limits.spool_directory; }, optional_path_codec(),
          "The folder for these requests, on a disk and not in memory. The files have no names, and the system "
          "removes them when the process ends. Empty: the folder in the environment variable TMPDIR, or /var/tmp."),
      one<Config>(
          "limits.min_rate", [](auto& c) -> auto& { return c.limits.min_rate; }, number_codec({0, 1'000'000}),
          "Bytes a second that a client must send or read on average, after a grace period of timeouts.body_idle. "
          "Only the time that Once waits for the client counts. 0: no limit."),
      one<Config>(
          "limits.max_header_bytes", [](auto& c) -> auto& { return c.limits.max_header_bytes; },
          size_codec({one_kib, one_mib}),
          "Bytes in the header of a request, which has at most 100 lines. Path and query may have a "
          "quarter of them."),
  };
}

Settings<Config> share_settings() {
  return {
      one<Config>(
          "limits.caller.in_flight", [](auto& c) -> auto& { return c.limits.caller.in_flight; },
          number_codec({0, 1'000'000}),
          "Concurrent keyed requests of one caller. More get 429 caller-limit. 0: no limit. Each gateway counts the "
          "limits on callers separately."),
      one<Config>(
          "limits.caller.new_keys", [](auto& c) -> auto& { return c.limits.caller.new_keys; },
          number_codec({0, 1'000'000}),
          "New keys of one caller per second; twice as many may arrive at once. Retries do "
          "not count. 0: no limit."),
      one<Config>(
          "limits.caller.stored_bytes", [](auto& c) -> auto& { return c.limits.caller.stored_bytes; },
          size_codec({0, one_tib}),
          "Bytes of unexpired responses that this gateway has recorded for one caller since its start. At the limit "
          "new keys get 429 caller-limit; retries are still answered. 0: no limit."),
      one<Config>(
          "limits.address.new_keys", [](auto& c) -> auto& { return c.limits.address.new_keys; },
          number_codec({0, 1'000'000}),
          "New keys per second of all unverified callers at one IPv4 address or in one IPv6 network of 64 bits; twice "
          "as "
          "many may arrive at once. "
          "Callers from jwt, mtls and proxy-header are verified. More get 429 caller-limit. 0: no limit."),
      one<Config>(
          "limits.address.stored_bytes", [](auto& c) -> auto& { return c.limits.address.stored_bytes; },
          size_codec({0, one_tib}),
          "Bytes that the keys of these callers take in the store until they expire. At the limit new keys get 429 "
          "caller-limit; retries are still answered. 0: three quarters of journal.max_disk with a journal, no limit "
          "with other stores; the memory store first evicts records of the address with the most."),
  };
}

Settings<Config> time_settings() {
  return {
      one<Config>(
          "timeouts.header", [](auto& c) -> auto& { return c.timeouts.header; }, duration_codec({100ms, 5min}),
          "From the first byte of a request to the end of its header. Also the limit for a TLS handshake."),
      one<Config>(
          "timeouts.body_idle", [](auto& c) -> auto& { return c.timeouts.body_idle; }, duration_codec({100ms, 1h}),
          "The longest silence of a client while it sends its request or reads its response."),
      one<Config>(
          "timeouts.idle", [](auto& c) -> auto& { return c.timeouts.idle; }, duration_codec({100ms, 1h}),
          "How long an idle client connection is kept open between requests."),
      one<Config>(
          "timeouts.drain", [](auto& c) -> auto& { return c.timeouts.drain; }, duration_codec({0ms, 1h}),
          "After SIGTERM: how long running requests may take to finish. Requests that are cut off have an unknown "
          "outcome, so set it longer than timeouts.connect plus timeouts.response of every route. Each step of a "
          "handover (SIGUSR2) may take half of it, and 30 seconds at least."),
      one<Config>(
          "timeouts.drain_delay", [](auto& c) -> auto& { return c.timeouts.drain_delay; }, duration_codec({0ms, 1h}),
          "After SIGTERM and before timeouts.drain: how long /readyz answers 503 while new connections are still "
          "served. Set it to the time that a load balancer needs to notice."),
      one<Config>(
          "pool.idle_max", [](auto& c) -> auto& { return c.pool.idle_max; }, duration_codec({0ms, 1h}),
          "How long a backend connection may be idle before it is closed. Keep it below the backend's own limit. Keyed "
          "requests use none that was idle for more than a quarter of it: if the backend closed it at that moment, "
          "the outcome would be unknown."),
  };
}

Setting<Route> route_methods_setting() {
  return {
      .name = "methods",
      .shape = Shape::list,
      .expected = "a list, each " + method_codec().expected + ", or all",
      .range = "",
      .help = "The methods of the route.",
      .set = [](Route& route, const Values& values) -> Parsed<void> {
        if (const auto checked = check_list(values); !checked) return checked;
        route.methods.reset();
        if (values == Values{"all"}) return {};
        if (values.empty()) return std::unexpected("expected at least one method, or all");
        const auto set = parse_methods(values);
        if (!set) return std::unexpected(set.error());
        route.methods = *set;
        return {};
      },
      .get = [](const Route& route) { return route.methods ? format_methods(*route.methods) : Values{"all"}; },
      .syntax = method_codec().syntax,
      .none = "all",
      .items = {.least = 1},
  };
}

}  // namespace

const Settings<Config>& process_settings() {
  static const Settings<Config> table = [] {
    Settings<Config> all = basic_settings();
    for (const auto& part : {tls_settings, store_settings, file_settings, claims_settings, caller_settings,
                             log_settings, limit_settings, share_settings, time_settings}) {
      for (Setting<Config>& setting : part()) all.push_back(std::move(setting));
    }
    return all;
  }();
  return table;
}

const Settings<Route>& route_settings() {
  static const Settings<Route> table = {
      one<Route>(
          "path", [](auto& r) -> auto& { return r.path; }, pattern_codec(),
          "The paths of the route; every route needs it. A slash at the end does not count, neither here nor in a "
          "request. The first matching route in the file is used."),
      list<Route>(
          "host", [](auto& r) -> auto& { return r.hosts; }, route_host_codec(), "",
          "Which hosts this route is for, by the Host of the request without its port. Empty: every host."),
      route_methods_setting(),
      one<Route>(
          "upstream", [](auto& r) -> auto& { return r.upstream; }, upstream_name_codec(),
          "The name of the upstream. Empty: the default upstream."),
      one<Route>(
          "strip_prefix", [](auto& r) -> auto& { return r.strip_prefix; }, base_path_codec(),
          "A prefix of whole segments to remove from the path before the base_path is added and the request is "
          "forwarded. Keys, logs and metrics use the path as the client sent it."),
  };
  return table;
}

Config builtin_config() {
  Config config;
  config.defaults = builtin_policy();
  return config;
}

}  // namespace once::config
