// What the process as a whole can be told, and what belongs to a route but is not policy.
#include "config/settings.hpp"

namespace once {

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
          "Who may use the claims API: the name of a tenant, and the file with its token, at least 16 bytes. Needed "
          "unless it listens on a Unix socket.",
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
          "Where the claims API is served, for work that is not an HTTP request. A Unix socket is for its user and "
          "group."),
      claims_tokens_setting(),
      one<Config>(
          "claims.max_body", [](auto& c) -> auto& { return c.claims.max_body; }, size_codec({one_kib, 64 * one_mib}),
          "Bytes of one of its requests, so of the values that are kept."),
      one<Config>(
          "claims.max_connections", [](auto& c) -> auto& { return c.claims.max_connections; },
          number_codec({1, 100'000}), "Connections to it at one time."),
      one<Config>(
          "claims.max_waiting", [](auto& c) -> auto& { return c.claims.max_waiting; }, number_codec({0, 100'000}),
          "Long polls at one time; more are answered at once."),
      one<Config>(
          "claims.max_wait", [](auto& c) -> auto& { return c.claims.max_wait; }, duration_codec({0ms, 1h}),
          "How long one of them may ask to wait; more is cut to it."),
  };
}

Settings<Config> caller_settings() {
  return {
      list<Config>(
          "jwt.keys", [](auto& c) -> auto& { return c.jwt.keys; }, path_codec(), "",
          "Files with the public keys that tokens are checked with: PEM, or a JSON Web Key Set. RSA keys (2048 bits "
          "and "
          "more) are for RS256, P-256 for ES256, Ed25519 for EdDSA."),
      list<Config>(
          "jwt.secrets", [](auto& c) -> auto& { return c.jwt.secrets; }, path_codec(), "",
          "Files with a secret each, at least 32 bytes, that tokens are checked with: HS256."),
      one<Config>(
          "jwt.issuer", [](auto& c) -> auto& { return c.jwt.rules.issuer; }, optional_word_codec(1000),
          "What iss of a token must be. Empty: anything."),
      list<Config>(
          "jwt.audience", [](auto& c) -> auto& { return c.jwt.rules.audience; }, word_codec(1000), "",
          "What aud of a token must name one of. Empty: it is not looked at."),
      one<Config>(
          "jwt.leeway", [](auto& c) -> auto& { return c.jwt.rules.leeway; }, duration_codec({0ms, 5min}),
          "How far clocks may be apart when exp, nbf and iat are checked."),
      one<Config>(
          "jwt.require_exp", [](auto& c) -> auto& { return c.jwt.rules.expiry; },
          choice_codec<Required>({{"yes", Required::yes}, {"no", Required::no}}),
          "Whether a token without exp is refused."),
      one<Config>(
          "jwt.header", [](auto& c) -> auto& { return c.jwt.header; }, header_name_codec(),
          "Where the token is: in Authorization behind the scheme Bearer, in any other header alone."),
  };
}

Codec<http::TlsVersion> tls_version_codec() {
  return choice_codec<http::TlsVersion>({{"1.2", http::TlsVersion::tls_1_2}, {"1.3", http::TlsVersion::tls_1_3}});
}

Settings<Config> tls_settings() {
  return {
      one<Config>(
          "tls.listen", [](auto& c) -> auto& { return c.tls.listen; }, address_or_off_codec(),
          "Where clients connect over TLS, beside listen or instead of it."),
      list<Config>(
          "tls.certificates", [](auto& c) -> auto& { return c.tls.certificates; }, path_codec(), "",
          "PEM files with a certificate each, and behind it those that vouch for it. Which one is shown is decided by "
          "the name that the client asks for; the first, if none is for that name."),
      list<Config>(
          "tls.keys", [](auto& c) -> auto& { return c.tls.keys; }, path_codec(), "",
          "PEM files with their private keys, in any order. Empty: each key is in the file of its certificate."),
      one<Config>(
          "tls.min_version", [](auto& c) -> auto& { return c.tls.min_version; }, tls_version_codec(),
          "The oldest version of TLS that clients may speak."),
      one<Config>(
          "tls.client_ca", [](auto& c) -> auto& { return c.tls.client_ca; }, optional_path_codec(),
          "A PEM file with the authorities whose certificates clients may show. Empty: clients are not asked for any."),
      one<Config>(
          "tls.client_crl", [](auto& c) -> auto& { return c.tls.client_crl; }, optional_path_codec(),
          "With tls.client_ca: a PEM file with the revocation lists (CRLs) of these authorities, one of each. "
          "Certificates on them are refused, and so is everybody if one is missing or has expired. A reload reads it "
          "again."),
      one<Config>(
          "tls.client_auth", [](auto& c) -> auto& { return c.tls.client_auth; },
          choice_codec<http::ClientAuth>(
              {{"optional", http::ClientAuth::optional}, {"required", http::ClientAuth::required}}),
          "With tls.client_ca: whether a client may do without one. A bad one is refused in either case."),
      one<Config>(
          "upstream_tls.ca", [](auto& c) -> auto& { return c.upstream_tls.ca; }, optional_path_codec(),
          "A PEM file with the authorities that upstreams with https are verified by. Empty: those the system trusts."),
      one<Config>(
          "upstream_tls.verify", [](auto& c) -> auto& { return c.upstream_tls.verify; }, yes_no_codec(),
          "Whether these upstreams must prove that they are the host of their URL. no: anybody on the way can read and "
          "change everything."),
      one<Config>(
          "upstream_tls.certificate", [](auto& c) -> auto& { return c.upstream_tls.certificate; },
          optional_path_codec(), "A PEM file with the certificate that is shown to these upstreams. Empty: none."),
      one<Config>(
          "upstream_tls.key", [](auto& c) -> auto& { return c.upstream_tls.key; }, optional_path_codec(),
          "A PEM file with its private key. Empty: it is in the file of the certificate."),
      one<Config>(
          "upstream_tls.min_version", [](auto& c) -> auto& { return c.upstream_tls.min_version; }, tls_version_codec(),
          "The oldest version of TLS that is spoken with them."),
  };
}

Settings<Config> basic_settings() {
  return {
      list<Config>(
          "include", [](auto& c) -> auto& { return c.include; }, path_codec(), "",
          "Other files that are read with this one, such as conf.d/*.yaml: paths, or patterns with * ? and [, relative "
          "to the folder of this file. See several files."),
      one<Config>(
          "listen", [](auto& c) -> auto& { return c.listen; }, address_or_off_codec(),
          "Where clients connect. Port 0 picks a free one; off: only tls.listen."),
      one<Config>(
          "admin", [](auto& c) -> auto& { return c.admin; }, address_or_off_codec(),
          "Where health, metrics and the dashboard are served. Elsewhere than on loopback, and with environment: "
          "production everywhere, admin_token is needed."),
      one<Config>(
          "admin_token", [](auto& c) -> auto& { return c.admin_token; }, secret_source_codec(),
          "What must be shown there for everything but health: as a bearer token, or to log in to the dashboard. At "
          "least 16 bytes. Empty: on loopback everybody may see and do everything; not with environment: production."),
      list<Config>(
          "readyz.checks", [](auto& c) -> auto& { return c.ready_checks; },
          choice_codec<ReadyCheck>({{"store", ReadyCheck::store},
                                    {"descriptors", ReadyCheck::descriptors},
                                    {"room", ReadyCheck::room},
                                    {"upstreams", ReadyCheck::upstreams}}),
          "",
          "What /readyz checks before it says ready. store: it answers. descriptors: the process did not run out of "
          "file "
          "descriptors within the last 5 seconds. room: the store refused no new key for want of room within the last "
          "5 "
          "seconds. upstreams: a server of any upstream "
          "is up; one without health checks counts as down for fail_timeout after it could not be reached. room and "
          "upstreams are for a "
          "gateway whose load balancer has others to choose from: while a check fails it sends no requests here, not "
          "even those that could be served."),
      one<Config>(
          "threads", [](auto& c) -> auto& { return c.threads; }, threads_codec(),
          "Threads that serve requests; auto is one per core."),
      one<Config>(
          "environment", [](auto& c) -> auto& { return c.environment; },
          choice_codec<Environment>(
              {{"development", Environment::development}, {"production", Environment::production}}),
          "In production a secret and, unless admin is off, admin_token must be given; in development a secret is made "
          "and kept in data_dir."),
      one<Config>(
          "store", [](auto& c) -> auto& { return c.store; }, store_codec(),
          "Where records are kept. Without a folder the journal is in data_dir. In YAML a bare memory: or journal: "
          "must be in quotes or without its colon. A URL may hold a password: it is never shown, but a process list "
          "shows command lines, so it belongs in a file."),
  };
}

Settings<Config> store_settings() {
  return {
      one<Config>(
          "memory.max_bytes", [](auto& c) -> auto& { return c.memory.max_bytes; }, size_codec({one_mib, one_tib}),
          "Memory for the records of the memory store. When full, the least recently used answers are forgotten."),
      one<Config>(
          "journal.sync", [](auto& c) -> auto& { return c.journal.sync; },
          choice_codec<Sync>({{"always", Sync::always}, {"interval", Sync::interval}, {"never", Sync::never}}),
          "When records are forced to disk. always: before anybody is told, so that nothing is ever lost. interval and "
          "never: a crash of Once still loses nothing, but a loss of power or a crash of the system forgets up to "
          "journal.sync_interval, or whatever the system had not written, and retries of that execute again."),
      one<Config>(
          "journal.sync_interval", [](auto& c) -> auto& { return c.journal.sync_interval; },
          duration_codec({10ms, 1min}), "How often records are forced to disk with journal.sync: interval."),
      one<Config>(
          "journal.max_disk", [](auto& c) -> auto& { return c.journal.max_disk; }, size_codec({4 * one_mib, one_tib}),
          "All files of the journal together. At the limit new keys get 503 store-full until others expire."),
      one<Config>(
          "journal.max_memory", [](auto& c) -> auto& { return c.journal.max_memory; }, size_codec({one_mib, one_tib}),
          "Memory for the journal's index, 34 to 48 bytes a key, and its cache. At the limit new keys get 503 "
          "store-full until others expire."),
      one<Config>(
          "journal.cache", [](auto& c) -> auto& { return c.journal.cache_bytes; }, size_codec({0, one_tib}),
          "Of journal.max_memory, for the latest records: retries of these are answered without the disk."),
      one<Config>(
          "journal.segment_size", [](auto& c) -> auto& { return c.journal.segment_bytes; },
          size_codec({one_mib, 4096 * one_mib}), "A file of the journal ends when it is this large."),
      one<Config>(
          "journal.segment_age", [](auto& c) -> auto& { return c.journal.segment_age; }, duration_codec({1s, 24h * 7}),
          "Or this old: a file is removed when everything in it has expired, so this is how much longer than their TTL "
          "expired records may stay on disk."),
      one<Config>(
          "server.connections", [](auto& c) -> auto& { return c.server.connections; }, number_codec({1, 64}),
          "Connections to the server of a redis, postgres or mysql store, or to each node of a Redis Cluster; each "
          "carries one batch at a time. What operators list and count has one more of its own, and so has the sweep of "
          "postgres and mysql."),
      one<Config>(
          "server.connect_timeout", [](auto& c) -> auto& { return c.server.connect_timeout; },
          duration_codec({100ms, 1min}), "How long making one may take."),
      one<Config>(
          "server.timeout", [](auto& c) -> auto& { return c.server.timeout; }, duration_codec({100ms, 5min}),
          "How long one batch may take, connecting and retries included. After that it is not known whether "
          "it was written; it is asked again with the same nonces, which settles it."),
      one<Config>(
          "server.sweep_every", [](auto& c) -> auto& { return c.server.sweep_every; }, duration_codec({1s, 24h}),
          "How often expired records are removed from a postgres or mysql store. Redis forgets by itself."),
      one<Config>(
          "server.sweep_batch", [](auto& c) -> auto& { return c.server.sweep_batch; }, number_codec({1, 100'000}),
          "How many of them in one transaction."),
      one<Config>(
          "redis.wait_replicas", [](auto& c) -> auto& { return c.server.wait_replicas; }, number_codec({0, 10}),
          "How many replicas must have a write before anybody is told of it. With 0 a failover may forget the last "
          "moments before it."),
      one<Config>(
          "redis.wait_timeout", [](auto& c) -> auto& { return c.server.wait_timeout; }, duration_codec({10ms, 1min}),
          "How long that is waited for; after it the request gets 503."),
      list<Config>(
          "encryption.keys", [](auto& c) -> auto& { return c.encryption_keys; }, path_codec(), "",
          "Files with a secret each, at least 16 bytes (make one with: openssl rand -hex 32). Recorded answers are "
          "encrypted with the first (AES-256-GCM) before they reach the store, and read with any of them: to change "
          "keys put a new one first, and drop the old one when everything from its time has expired. Empty: not "
          "encrypted."),
  };
}

Settings<Config> file_settings() {
  return {
      one<Config>(
          "data_dir", [](auto& c) -> auto& { return c.data_dir; }, path_codec(), "Where Once keeps files of its own."),
      one<Config>(
          "secret_file", [](auto& c) -> auto& { return c.secret_file; }, optional_path_codec(),
          "A file with the secret that operation ids are made with, at least 16 bytes. The environment variable "
          "ONCE_SECRET comes before it. All gateways on one store need the same; a changed secret forgets every key."),
      one<Config>(
          "errors_base", [](auto& c) -> auto& { return c.errors_base; }, word_codec(200),
          "What the type of a problem document begins with; the name of the error follows."),
      upstreams_setting(),
      list<Config>(
          "trusted_proxies", [](auto& c) -> auto& { return c.trusted_proxies; }, network_codec(), "",
          "Addresses of proxies in front of Once. Only they may say where a request came from: X-Forwarded-For, "
          "X-Forwarded-Host, Forwarded and the like are ignored or dropped in requests from anybody else. unix stands "
          "for connections through a Unix socket."),
      one<Config>(
          "proxy_protocol.listen", [](auto& c) -> auto& { return c.proxy_protocol_listen; }, yes_no_codec(),
          "Whether connections to listen begin with a header of the PROXY protocol (version 1 or 2), in which a load "
          "balancer that only passes bytes on says whose connection it is. Without a right one they are closed."),
      one<Config>(
          "proxy_protocol.tls", [](auto& c) -> auto& { return c.proxy_protocol_tls; }, yes_no_codec(),
          "The same for tls.listen: the header comes before the TLS handshake."),
      list<Config>(
          "proxy_protocol.from", [](auto& c) -> auto& { return c.proxy_protocol_from; }, network_codec(), "",
          "Addresses of these load balancers. Connections of anybody else to such a port are refused. The client that "
          "the header names counts as the one who connected, for limits, logs, trusted_proxies and backends alike."),
      list<Config>(
          "same_hosts", [](auto& c) -> auto& { return c.same_hosts; }, same_hosts_codec(), "",
          "A key belongs to the host that the request is for. Hosts in one item share their keys: a client that tries "
          "again at the other one gets the same answer. The first name of an item is the one in operation ids."),
      list<Config>(
          "upgrades", [](auto& c) -> auto& { return c.upgrades; }, protocol_codec(), "none",
          "Protocols that a client may switch to with Upgrade, by their names. Any other Upgrade header is ignored: "
          "the "
          "request goes on as HTTP/1.1."),
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
          "The least severe lines to write to stderr."),
      one<Config>(
          "log.format", [](auto& c) -> auto& { return c.log.format; },
          choice_codec<LogFormat>(
              {{"auto", LogFormat::automatic}, {"text", LogFormat::text}, {"json", LogFormat::json}}),
          "How lines are written; auto is text at a terminal and JSON lines elsewhere."),
      one<Config>(
          "log.access", [](auto& c) -> auto& { return c.log.access.on; }, yes_no_codec(),
          "Whether requests are lines in the access log. Keys, bodies and query strings are never logged."),
      one<Config>(
          "log.access_sample", [](auto& c) -> auto& { return c.log.access.sample; }, number_codec({1, 1'000'000}),
          "One request in so many, drawn at random, is a line there. 1: every one."),
      one<Config>(
          "log.access_file", [](auto& c) -> auto& { return c.log.access_file; }, optional_path_codec(),
          "The file that they are appended to, opened anew by SIGUSR1. Empty: they go to stdout."),
      one<Config>(
          "audit_log", [](auto& c) -> auto& { return c.audit_log; }, optional_path_codec(),
          "A file to which everything that operators do to keys is appended, beside the log. What cannot be written "
          "there is not done. Empty: the log alone."),
      one<Config>(
          "keys.count_every", [](auto& c) -> auto& { return c.count_keys_every; }, duration_codec({0s, 24h}),
          "How often the keys in the store are counted for the metric once_keys. A count is spread so that it takes at "
          "most a hundredth of the time. 0s: never, and there is no such metric."),
  };
}

Settings<Config> limit_settings() {
  return {
      one<Config>(
          "limits.max_connections", [](auto& c) -> auto& { return c.max_connections; },
          auto_or_number_codec({1, 1'000'000}),
          "Connections from clients at one time, in the whole process. auto is 10000, or fewer if there are not enough "
          "file descriptors for so many and as many to backends."),
      one<Config>(
          "limits.max_connections_per_address", [](auto& c) -> auto& { return c.limits.max_connections_per_address; },
          number_codec({0, 1'000'000}),
          "Of these, from one IPv4 address or one IPv6 network of 64 bits. 0: as many as there are. Behind a proxy all "
          "of them come from one address."),
      one<Config>(
          "limits.max_in_flight", [](auto& c) -> auto& { return c.limits.max_in_flight; },
          number_codec({1, 10'000'000}),
          "Requests with a key at work at one time, in the whole process. More get 503 overloaded; requests without a "
          "key go on."),
      one<Config>(
          "limits.max_body_memory", [](auto& c) -> auto& { return c.limits.max_body_memory; },
          size_codec({one_mib, one_tib}),
          "Memory for bodies that are held as a whole, in the whole process: of requests with a key, of writes that "
          "conditional.if_match covers, of the claims API, and of responses that clients have not read yet. A request "
          "or a replay that does not fit gets 503 overloaded. Responses that must be recorded may take a quarter more; "
          "one that does not fit "
          "then is recorded without its body."),
      one<Config>(
          "limits.min_rate", [](auto& c) -> auto& { return c.limits.min_rate; }, number_codec({0, 1'000'000}),
          "Bytes a second that a client must send of a body, or take of a response, on average, beside a grace of "
          "timeouts.body_idle. Only the time counts in which the client is waited for. 0: no limit."),
      one<Config>(
          "limits.max_header_bytes", [](auto& c) -> auto& { return c.limits.max_header_bytes; },
          size_codec({one_kib, one_mib}), "Bytes of the header of a request."),
      one<Config>(
          "limits.max_header_count", [](auto& c) -> auto& { return c.limits.max_header_count; },
          number_codec({8, 1000}), "Header lines of a request."),
      one<Config>(
          "limits.max_uri_bytes", [](auto& c) -> auto& { return c.limits.max_uri_bytes; },
          size_codec({256, 64 * one_kib}), "Bytes of path and query."),
  };
}

Settings<Config> share_settings() {
  return {
      one<Config>(
          "limits.caller.in_flight", [](auto& c) -> auto& { return c.limits.caller.in_flight; },
          number_codec({0, 1'000'000}),
          "Requests with a key of one caller at work at one time. More get 429 caller-limit. 0: no limit. This and the "
          "other limits on callers are counted by each gateway for itself."),
      one<Config>(
          "limits.caller.new_keys", [](auto& c) -> auto& { return c.limits.caller.new_keys; },
          number_codec({0, 1'000'000}), "New keys of one caller a second. Retries are not counted. 0: no limit."),
      one<Config>(
          "limits.caller.new_keys_burst", [](auto& c) -> auto& { return c.limits.caller.new_keys_burst; },
          number_codec({0, 1'000'000}), "How many of them may come at once; 0 is twice limits.caller.new_keys."),
      one<Config>(
          "limits.caller.stored_bytes", [](auto& c) -> auto& { return c.limits.caller.stored_bytes; },
          size_codec({0, one_tib}),
          "Bytes of the answers that this gateway recorded for one caller since its start and that have not expired. "
          "At "
          "the limit new keys get 429 caller-limit, retries still their answers. 0: no limit."),
      one<Config>(
          "limits.caller.tracked", [](auto& c) -> auto& { return c.limits.caller.tracked; },
          number_codec({1000, 10'000'000}),
          "Callers that these counts are kept of, about 400 bytes each, and as many addresses. Beyond it those that "
          "were "
          "idle the longest start anew."),
      one<Config>(
          "limits.address.new_keys", [](auto& c) -> auto& { return c.limits.address.new_keys; },
          number_codec({0, 1'000'000}),
          "New keys a second of all callers at one IPv4 address, or in one IPv6 network of 64 bits, that are not "
          "proven: "
          "by anything else than jwt, mtls or proxy-header. More get 429 caller-limit. 0: no limit."),
      one<Config>(
          "limits.address.new_keys_burst", [](auto& c) -> auto& { return c.limits.address.new_keys_burst; },
          number_codec({0, 1'000'000}), "How many of them may come at once; 0 is twice limits.address.new_keys."),
      one<Config>(
          "limits.address.stored_bytes", [](auto& c) -> auto& { return c.limits.address.stored_bytes; },
          size_codec({0, one_tib}),
          "Bytes that the keys of these callers take in the store, until they expire. At the limit new keys get 429 "
          "caller-limit, retries still their answers. 0: three quarters of journal.max_disk or memory.max_bytes; no "
          "limit on a server."),
  };
}

Settings<Config> time_settings() {
  return {
      one<Config>(
          "timeouts.header", [](auto& c) -> auto& { return c.timeouts.header; }, duration_codec({100ms, 5min}),
          "From the first byte of a request to the end of its header. A TLS handshake may take as long."),
      one<Config>(
          "timeouts.body_idle", [](auto& c) -> auto& { return c.timeouts.body_idle; }, duration_codec({100ms, 1h}),
          "The longest silence of a client while its request comes in or its response goes out."),
      one<Config>(
          "timeouts.idle", [](auto& c) -> auto& { return c.timeouts.idle; }, duration_codec({100ms, 1h}),
          "How long a client's connection is kept open between requests."),
      one<Config>(
          "timeouts.drain", [](auto& c) -> auto& { return c.timeouts.drain; }, duration_codec({0ms, 1h}),
          "After SIGTERM: how long running requests may take to end. What is cut off then has an unknown outcome, so "
          "this "
          "should be longer than timeouts.connect and timeouts.response of every route together."),
      one<Config>(
          "timeouts.drain_delay", [](auto& c) -> auto& { return c.timeouts.drain_delay; }, duration_codec({0ms, 1h}),
          "How long, after SIGTERM and before timeouts.drain begins, /readyz answers 503 while new connections are "
          "still "
          "taken and served. Set it to the time that a load balancer needs to notice."),
      one<Config>(
          "timeouts.handover", [](auto& c) -> auto& { return c.timeouts.handover; }, duration_codec({100ms, 1h}),
          "After SIGUSR2: how long each step may take: the successor's start, the end of running requests that need a "
          "store which cannot be shared, and reading that store. When a step takes longer, the successor is ended and "
          "the process serves on. New connections wait during the last two."),
      one<Config>(
          "pool.max_idle", [](auto& c) -> auto& { return c.pool.max_idle; }, number_codec({0, 10'000}),
          "Idle connections kept for each backend and thread."),
      one<Config>(
          "pool.idle_max", [](auto& c) -> auto& { return c.pool.idle_max; }, duration_codec({0ms, 1h}),
          "How long a connection to a backend may idle before it is closed. Keep it below what the backend allows."),
      one<Config>(
          "pool.keyed_idle_max", [](auto& c) -> auto& { return c.pool.keyed_idle_max; }, duration_codec({0ms, 1h}),
          "Requests with a key take no connection that idled longer: one that the backend closes at that very moment "
          "would make the outcome unknown."),
  };
}

Setting<Route> route_methods_setting() {
  return {
      .name = "methods",
      .shape = Shape::list,
      .expected = "a list, each " + method_codec().expected + ", or all",
      .range = "",
      .help = "Methods that this route matches.",
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
          "Which paths this route matches; every route needs it. The first route in the file that matches is taken."),
      list<Route>(
          "host", [](auto& r) -> auto& { return r.hosts; }, route_host_codec(), "",
          "Which hosts this route is for, by the Host of the request without its port. Empty: every host."),
      route_methods_setting(),
      one<Route>(
          "upstream", [](auto& r) -> auto& { return r.upstream; }, upstream_name_codec(),
          "The name of the backend; the default one if absent."),
      one<Route>(
          "strip_prefix", [](auto& r) -> auto& { return r.strip_prefix; }, base_path_codec(),
          "Whole segments that are taken off the beginning of the path before it goes to the backend, and before its "
          "base_path is put there. Keys, logs and metrics know the path as the client sent it."),
  };
  return table;
}

Config builtin_config() {
  Config config;
  config.defaults = builtin_policy();
  return config;
}

}  // namespace once
