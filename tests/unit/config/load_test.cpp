#include "config/load.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "config/removed.hpp"
#include "config/settings.hpp"
#include "core/outcome.hpp"

namespace once::config::load_test {

using namespace std::chrono_literals;

std::string errors_of(std::string_view text, std::span<const Override> overrides = {}) {
  const auto config = parse(text, "once.yaml", overrides);
  if (config) return "";
  std::string all;
  for (const ConfigError& error : config.error()) all += to_string(error) + "\n";
  return all;
}

Config parsed(std::string_view text, std::span<const Override> overrides = {}) {
  EXPECT_EQ(errors_of(text, overrides), "");
  return parse(text, "once.yaml", overrides).value_or(Config());
}

struct Mistake {
  const char* yaml;
  const char* error;
};

// clang-format off
const Mistake mistakes[] = {
  // Names.
  {"lese: 1", R"(once.yaml:1:1: unknown setting "lese")"},
  {"lissten: a:1", R"(once.yaml:1:1: unknown setting "lissten"; did you mean "listen"?)"},
  {"routes:\n  - path: /x\n    lese: 30s", R"(once.yaml:3:5: unknown setting "lese"; did you mean "lease"?)"},
  {"routes:\n  - path: /x\n    key: {requird: yes}", R"(once.yaml:3:11: unknown setting "key.requird"; did you mean "key.required"?)"},
  {"log: {levle: info}", R"(once.yaml:1:7: unknown setting "log.levle"; did you mean "log.level"?)"},
  {"ttl: 24h", R"(once.yaml:1:1: "ttl" belongs in a route or in defaults)"},
  {"key: {required: yes}", R"(once.yaml:1:1: "key" belongs in a route or in defaults)"},
  {"timeouts: {response: 1s}", R"(once.yaml:1:12: "timeouts.response" belongs in a route or in defaults)"},
  {"path: /x", R"(once.yaml:1:1: "path" belongs in a route)"},
  {"upstream: http://x", R"(once.yaml:1:1: "upstream" belongs in a route; define backends under upstreams, such as upstreams: {default: http://127.0.0.1:9000})"},
  {"defaults: {listen: a:1}", R"(once.yaml:1:12: "listen" belongs at the top of the file, not in defaults)"},
  {"defaults: {path: /x}", R"(once.yaml:1:12: "path" is a setting of a route)"},
  {"routes: [{path: /x, store: memory}]", R"(once.yaml:1:21: "store" belongs at the top of the file, not in a route)"},
  {"listen: a:1\nlisten: a:2", R"(once.yaml:2:1: "listen" is set twice)"},
  {"log: {level: info}\nlog: {level: warn}", R"(once.yaml:2:7: "log.level" is set twice)"},
  {"upstreams: {a: http://x, a: http://y}", R"(once.yaml:1:26: "upstreams.a" is set twice)"},
  {"? [a]\n: b", "once.yaml:1:3: expected the name of a setting"},
  // Settings of earlier versions.
  {"defaults:\n  wording:\n    mismatch_status: 409", R"(once.yaml:3:5: "wording.mismatch_status" is no longer a setting: the dialect decides how problems and replays are worded)"},
  {"routes: [{path: /x, key: {max_length: 64}}]", R"(once.yaml:1:27: "key.max_length" is no longer a setting: the dialect decides it: 256 characters with streams, 255 with the others)"},
  // Shapes.
  {"- a", "once.yaml:1:1: expected a map of settings"},
  {"hello", "once.yaml:1:1: expected a map of settings"},
  {"log: info", "once.yaml:1:6: log: expected a map of settings"},
  {"listen: [a:1]", "once.yaml:1:9: listen: expected an address such as 127.0.0.1:8080 or [::1]:8080, or off, got a list"},
  {"listen: {a: 1}", "once.yaml:1:9: listen: expected an address such as 127.0.0.1:8080 or [::1]:8080, or off, got a map"},
  {"listen:\nadmin: off", "once.yaml:1:1: listen: expected an address such as 127.0.0.1:8080 or [::1]:8080, or off, got nothing"},
  {"defaults: 1", "once.yaml:1:11: defaults: expected a map of settings"},
  {"defaults: {caller: {a: b}}", "once.yaml:1:20: caller: expected a list, each header:NAME, proxy-header:NAME, cookie:NAME, jwt:CLAIM, mtls:subject or client-ip, or none, got a map"},
  {"defaults: {caller: [[a]]}", "once.yaml:1:20: caller: expected a list, each header:NAME, proxy-header:NAME, cookie:NAME, jwt:CLAIM, mtls:subject or client-ip, or none"},
  {"routes: {path: /x}", "once.yaml:1:9: routes: expected a list of routes"},
  {"routes: [/x]", "once.yaml:1:10: routes: expected a map of settings with at least a path"},
  {"routes: [{ttl: 1h}]", "once.yaml:1:10: this route has no path; path: /** matches everything"},
  {"upstreams: http://x", "once.yaml:1:12: upstreams: expected names with a URL such as http://127.0.0.1:9000, or a map of settings, each"},
  {"upstreams: {a: [http://x]}", "once.yaml:1:16: upstreams: expected names with a URL such as http://127.0.0.1:9000, or a map of settings, each"},
  // Values.
  {"defaults:\n  ttl: soon", R"(once.yaml:2:8: ttl: expected a duration such as 24h, got "soon")"},
  {"defaults:\n  ttl: 0s", R"(once.yaml:2:8: ttl: must be from 1s to 365d, got "0s")"},
  {"defaults: {record: {max_body: lots}}", R"(once.yaml:1:31: record.max_body: expected a size such as 1MiB, got "lots")"},
  {"journal: {sync: sometimes}", R"(once.yaml:1:17: journal.sync: expected always, interval or never, got "sometimes")"},
  {"journal: {max_disk: 1KiB}", R"(once.yaml:1:21: journal.max_disk: must be from 4MiB to 1TiB, got "1KiB")"},
  {"memory: {max_bytes: 1KiB}", R"(once.yaml:1:21: memory.max_bytes: must be from 1MiB to 1TiB, got "1KiB")"},
  {"limits: {max_in_flight: 5.5}", R"(once.yaml:1:25: limits.max_in_flight: expected a whole number, got "5.5")"},
  {"limits: {max_in_flight: 0}", R"(once.yaml:1:25: limits.max_in_flight: must be from 1 to 10000000, got "0")"},
  {"threads: 0", R"(once.yaml:1:10: threads: must be from 1 to 256, got "0")"},
  {"threads: many", R"(once.yaml:1:10: threads: expected auto or a whole number, got "many")"},
  {"listen: 8080", R"(once.yaml:1:9: listen: expected an address such as 127.0.0.1:8080 or [::1]:8080, or off, got "8080")"},
  {"listen: ':8080'", R"(once.yaml:1:9: listen: expected an address such as 127.0.0.1:8080 or [::1]:8080, or off, got ":8080"; every address of this machine is 0.0.0.0:8080)"},
  {"admin: on", R"(once.yaml:1:8: admin: expected an address such as 127.0.0.1:8080 or [::1]:8080, or off, got "on")"},
  {"defaults: {conditional: {etag: 1}}", R"(once.yaml:1:32: conditional.etag: expected off or on, got "1")"},
  {"defaults: {on_unknown: true}", R"(once.yaml:1:24: on_unknown: expected retry, takeover or hold, got "true")"},
  {"environment: prod", R"(once.yaml:1:14: environment: expected development or production, got "prod")"},
  {"environment: porduction", R"(once.yaml:1:14: environment: expected development or production, got "porduction"; did you mean "production"?)"},
  {"defaults: {on_unknown: tkeover}", R"(once.yaml:1:24: on_unknown: expected retry, takeover or hold, got "tkeover"; did you mean "takeover"?)"},
  {"defaults: {dialect: strip}", R"(once.yaml:1:21: dialect: expected ietf, stripe, platform, workflow or streams, got "strip"; did you mean "stripe"?)"},
  {"defaults: {key: {header: a b}}", R"(once.yaml:1:26: key.header: expected a header name, got "a b")"},
  {"defaults: {key: {methods: [POTS]}}", R"(once.yaml:1:27: key.methods: expected GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS or QUERY, got "POTS")"},
  {"defaults: {key: {methods: [POST, POST]}}", R"(once.yaml:1:27: key.methods: "POST" is listed twice)"},
  {"defaults: {caller: [user]}", R"(once.yaml:1:20: caller: expected header:NAME, proxy-header:NAME, cookie:NAME, jwt:CLAIM, mtls:subject or client-ip, got "user")"},
  {"defaults: {scope: []}", "once.yaml:1:19: scope: expected at least one of caller, method and path"},
  {"defaults: {record: {statuses: [2x]}}", R"(once.yaml:1:31: record.statuses: expected statuses from 200 to 599 such as 404, or classes such as 2xx, got "2x")"},
  {"defaults: {fingerprint: {exclude: [timestamp]}}", R"(once.yaml:1:35: fingerprint.exclude: expected a JSON pointer such as /timestamp, got "timestamp")"},
  {"log: {access: maybe}", R"(once.yaml:1:15: log.access: expected yes or no, got "maybe")"},
  {"routes: [{path: v1}]", R"(once.yaml:1:17: path: expected a path such as /v1/charges/** (* or {name} for one segment, ** at the end for any rest), got "v1")"},
  {"routes: [{path: /x, host: a:80}]", R"(once.yaml:1:27: host: expected a name such as api.example.com, or *.example.com for every name below it, got "a:80")"},
  {"routes: [{path: /x, host: 'a.*.b'}]", R"(once.yaml:1:27: host: expected a name such as api.example.com, or *.example.com for every name below it, got "a.*.b")"},
  {"routes: [{path: /x, methods: []}]", "once.yaml:1:30: methods: expected at least one method, or all"},
  {"upstreams: {a: localhost}", R"(once.yaml:1:16: upstreams.a: expected a URL such as http://127.0.0.1:9000, got "localhost")"},
  {"upstreams: {a: }", "once.yaml:1:13: upstreams.a: expected a URL such as http://127.0.0.1:9000, got nothing"},
  {"upstreams: {a b: http://x}", R"(once.yaml:1:18: upstreams.a b: a name has 1 to 64 letters, digits, - and _, got "a b")"},
  {"upstreams: {a: https://}", R"(once.yaml:1:16: upstreams.a: expected a URL such as http://127.0.0.1:9000, got "https://")"},
  {"upstreams: {a: {balance: round_robin}}", "once.yaml:1:13: upstreams.a has no servers"},
  {"upstreams:\n  a:\n    servers: [http://x]\n    balanse: x", R"(once.yaml:4:5: unknown setting "balanse"; did you mean "balance"?)"},
  {"upstreams: {a: {servers: [http://x], balance: random}}", R"(once.yaml:1:47: balance: expected round_robin or least_connections, got "random")"},
  {"upstreams: {a: {servers: []}}", "once.yaml:1:26: servers: from 1 to 64 servers, got 0"},
  {"upstreams: {a: {servers: [http://x, http://x]}}", R"(once.yaml:1:26: servers: "http://x" is listed twice)"},
  {"upstreams: {a: {servers: http://x/base}}", R"(once.yaml:1:26: servers: expected http://HOST, http://HOST:PORT or unix:/path/to.sock, got "http://x/base"; the path of all servers is base_path)"},
  {"upstreams: {a: {servers: http://x, health: {pth: /}}}", R"(once.yaml:1:45: unknown setting "health.pth"; did you mean "health.path"?)"},
  {"upstreams: {a: {servers: http://x, health: /up}}", "once.yaml:1:44: health: expected a map of settings"},
  {"upstreams: {a: {servers: http://x, health: {path: up}}}", R"(once.yaml:1:51: health.path: expected a path such as /healthz, or nothing, got "up")"},
  {"upstreams: {a: {servers: http://x, host: 'a b'}}", R"(once.yaml:1:42: host: expected keep, upstream, or a name such as api.internal, got "a b")"},
  {"upstreams: {a: {servers: http://x, servers: http://y}}", R"(once.yaml:1:36: "servers" is set twice)"},
  {"upstreams: {a b: {servers: http://x}}", R"(once.yaml:1:13: upstreams.a b: a name has 1 to 64 letters, digits, - and _, got "a b")"},
  {"claims: {tokens: {a: {b: c}}}", "once.yaml:1:22: claims.tokens: expected names with the path of a file each"},
  {"trusted_proxies: [10.0.0.1/8]", R"(once.yaml:1:18: trusted_proxies: expected an address, a network such as 10.0.0.0/8 or 2001:db8::/32, or unix, got "10.0.0.1/8")"},
  {"same_hosts: [a.example]", R"(once.yaml:1:13: same_hosts: expected two or more hosts with a space between them, such as api.example.com api-eu.example.com, or * for all, got "a.example")"},
  {"same_hosts: a.example http://b", R"(once.yaml:1:13: same_hosts: expected two or more hosts with a space between them, such as api.example.com api-eu.example.com, or * for all, got "a.example http://b")"},
  {"routes: [{path: /x, strip_prefix: api}]", R"(once.yaml:1:35: strip_prefix: expected a path such as /api, got "api")"},
  {"store: redis://u:p@localhost:x", "once.yaml:1:8: store: the port of host \"localhost\" in the store's URL must be a number from 1 to 65535"},
  {"store: mysql:x", "once.yaml:1:8: store: the store's URL must begin with its kind and ://"},
  {"store: memroy", R"(once.yaml:1:8: store: expected journal:FOLDER, memory:, redis://HOST:PORT, postgres://HOST/DATABASE or mysql://HOST/DATABASE, got "memroy"; did you mean "memory"?)"},
  {"store: sqlite:x", R"(once.yaml:1:8: store: expected journal:FOLDER, memory:, redis://HOST:PORT, postgres://HOST/DATABASE or mysql://HOST/DATABASE, got "sqlite:x")"},
  // Syntax.
  {"listen: a:1\nadmin: \"x", "once.yaml:2:8: not valid YAML: a quoted string begins here, and its closing quote is missing"},
  {"audit_log: '/x\nroutes:\n  - path: /**\n    key: {required: yes}\n", "once.yaml:1:12: not valid YAML: a quoted string begins here, and its closing quote is missing"},
  {"audit_log: \"/x\\\" # '\nroutes:\n  - path: /**\n\n \n", "once.yaml:1:12: not valid YAML: a quoted string begins here, and its closing quote is missing"},
  {"routes:\n  - path: '/it''s\n    methods: [POST]\n", "once.yaml:2:11: not valid YAML: a quoted string begins here, and its closing quote is missing"},
  {"routes:\n  - {path: /a, methods: [POST, 'PUT]}\n", "once.yaml:2:32: not valid YAML: a quoted string begins here, and its closing quote is missing"},
  {"listen: a:1\n'admin: off\n", "once.yaml:2:1: not valid YAML: a quoted string begins here, and its closing quote is missing"},
  {"audit_log: '\n", "once.yaml:1:12: not valid YAML: a quoted string begins here, and its closing quote is missing"},
  {"audit_log: &x 'a\nlisten: a:1\n", "once.yaml:1:12: not valid YAML: a quoted string begins here, and its closing quote is missing"},
  // Indentation.
  {"log:\n\tlevel: info\n", "once.yaml:2:7: not valid YAML: this line is indented with a tab; use spaces"},
  {"log:\n  level: info\n\taccess: on\n", "once.yaml:3:1: not valid YAML: this line is indented with a tab; use spaces"},
  {"routes:\n  \t- path: /a\n", "once.yaml:2:4: not valid YAML: this line is indented with a tab; use spaces"},
  {"store: memory:", R"(once.yaml:1:14: not valid YAML: illegal map value (a value that ends in ":" must be in quotes))"},
  {"a: 1\n---\nb: 2", "once.yaml:2:1: only one document is allowed"},
  {",", "once.yaml:1:1: not valid YAML: unexpected text"},
  {", listen: a:1", "once.yaml:1:1: not valid YAML: unexpected text"},
};
// clang-format on

TEST(ConfigLoad, mistakes_are_told_with_their_place) {
  for (const Mistake& mistake : mistakes) {
    EXPECT_EQ(errors_of(mistake.yaml), std::string(mistake.error) + "\n") << mistake.yaml;
  }
}

TEST(ConfigLoad, quotes_that_open_nothing_are_no_mistakes) {
  const Config config = parsed(
      "# don't read this\n"
      "audit_log: it's \"here  # isn't it?\n"
      "secret_file: 'it''s'\n"
      "data_dir: \"a \\\" b\"\n"
      "store: \"journal:/x\n  y\"\n"
      "upstreams: {a: 'http://a', 'b': http://b}\n");
  EXPECT_EQ(config.audit_log, "it's \"here");
  EXPECT_EQ(config.secret_file, "it's");
  EXPECT_EQ(config.data_dir, "a \" b");
  EXPECT_EQ(config.store, "journal:/x y");
  EXPECT_EQ(config.upstreams.size(), 2U);
}

TEST(ConfigLoad, every_mistake_of_a_file_is_told_in_order) {
  EXPECT_EQ(
      errors_of("threads: x\n"
                "defaults:\n"
                "  ttl: soon\n"
                "routes:\n"
                "  - path: /a\n"
                "    lease: never\n"
                "  - path: b\n"
                "nonsense: 1\n"),
      "once.yaml:1:10: threads: expected auto or a whole number, got \"x\"\n"
      "once.yaml:3:8: ttl: expected a duration such as 24h, got \"soon\"\n"
      "once.yaml:6:12: lease: expected a duration such as 24h, got \"never\"\n"
      "once.yaml:7:11: path: expected a path such as /v1/charges/** (* or {name} for one segment, ** at the end for "
      "any rest), got \"b\"\n"
      "once.yaml:8:1: unknown setting \"nonsense\"\n");
}

TEST(ConfigLoad, an_empty_file_is_all_defaults) {
  for (const char* text : {"", "# nothing\n", "{}", "---\n", "defaults:\nroutes:\nupstreams:\n"}) {
    const Config config = parsed(text);
    EXPECT_EQ(config.listen, "127.0.0.1:8080");
    EXPECT_EQ(config.admin, "127.0.0.1:8081");
    EXPECT_EQ(config.threads, 0U);
    EXPECT_EQ(config.environment, Environment::development);
    EXPECT_EQ(config.store, "journal:");
    EXPECT_EQ(config.defaults.ttl, 24h);
    EXPECT_TRUE(contains(config.defaults.record.statuses, 201));
    EXPECT_TRUE(contains(config.defaults.record.refusals, 429));
    EXPECT_TRUE(config.routes.empty());
  }
}

TEST(ConfigLoad, a_whole_file) {
  const Config config = parsed(R"(
listen: "[::]:8080"
admin: off
threads: 4
environment: production
store: "memory:"
memory: {max_bytes: 1GiB}
secret_file: /etc/once/secret
upstreams:
  payments: http://127.0.0.1:9000
  default: http://legacy/api/
defaults: {ttl: 7d}
log: {level: debug, format: json, access: on}
routes:
  - path: /v1/charges/**
    methods: [POST, GET]
    upstream: payments
    key: {required: yes, header: X-Key, methods: [POST]}
    caller: [header:Authorization, cookie:sid]
    scope: [caller, path]
    fingerprint: {body: json, exclude: [/timestamp, /a/0]}
    lease: 10s
    on_unknown: hold
    takeover_after: 1m
    in_flight: wait
    in_flight_wait: 5s
    record: {statuses: [2xx, 404], refusals: [401], max_body: 64KiB, drop_headers: [X-Trace], gateway_errors: unknown}
    store_down: bypass
    max_request_body: 1MiB
    timeouts: {connect: 1s, response: 2m, stream_idle: 1h}
  - path: /v2/**
    caller: none
)");
  EXPECT_EQ(config.listen, "[::]:8080");
  EXPECT_EQ(config.admin, "off");
  EXPECT_EQ(config.threads, 4U);
  EXPECT_EQ(config.memory.max_bytes, std::size_t{1} << 30U);
  EXPECT_EQ(config.log.level, LogLevel::debug);
  EXPECT_TRUE(config.log.access);
  ASSERT_EQ(config.upstreams.size(), 2U);
  EXPECT_EQ(config.upstreams[0].name, "default") << "the one named default comes first wherever it stands";
  EXPECT_EQ(config.upstreams[0].base_path, "/api");
  ASSERT_EQ(config.routes.size(), 2U);
  const Route& route = config.routes[0];
  EXPECT_EQ(route.where.line, 15);
  EXPECT_EQ(route.upstream, "payments");
  EXPECT_EQ(route.methods->count(), 2U);
  EXPECT_EQ(route.policy.key.required, Required::yes);
  EXPECT_EQ(route.policy.key.header, "X-Key");
  EXPECT_EQ(route.policy.methods.count(), 1U);
  EXPECT_EQ(route.policy.caller.size(), 2U);
  EXPECT_EQ(route.policy.caller[1].name, "sid");
  EXPECT_EQ(route.policy.scope, (std::vector{ScopePart::caller, ScopePart::path}));
  EXPECT_EQ(route.policy.fingerprint.exclude, (std::vector<std::string>{"/timestamp", "/a/0"}));
  EXPECT_EQ(route.policy.ttl, 168h);
  EXPECT_EQ(route.policy.lease, 10s);
  EXPECT_EQ(route.policy.on_unknown, OnUnknown::hold);
  EXPECT_EQ(route.policy.wait_limit, 5s);
  EXPECT_TRUE(contains(route.policy.record.statuses, 404));
  EXPECT_FALSE(contains(route.policy.record.statuses, 400));
  EXPECT_EQ(route.policy.record.max_body, 65536U);
  EXPECT_EQ(route.policy.record.gateway_errors, GatewayErrors::unknown);
  EXPECT_EQ(route.policy.store_down, StoreDown::bypass);
  EXPECT_EQ(route.policy.timeouts.response, 2min);
  EXPECT_TRUE(config.routes[1].policy.caller.empty());
  EXPECT_FALSE(config.routes[1].methods.has_value());
}

TEST(ConfigLoad, truth_values_have_three_spellings_each) {
  for (const std::string yes : {"on", "yes", "true"}) {
    const Config config =
        parsed(fmt::format("log: {{access: {0}}}\njwt: {{require_exp: {0}}}\n"
                           "defaults: {{key: {{required: {0}}}, conditional: {{etag: {0}, if_match: {0}}}}}",
                           yes));
    EXPECT_TRUE(config.log.access) << yes;
    EXPECT_EQ(config.jwt.rules.expiry, Required::yes) << yes;
    EXPECT_EQ(config.defaults.key.required, Required::yes) << yes;
    EXPECT_EQ(config.defaults.conditional.etag, Etags::on) << yes;
    EXPECT_EQ(config.defaults.conditional.if_match, IfMatch::on) << yes;
  }
  for (const std::string no : {"off", "no", "false"}) {
    const Config config =
        parsed(fmt::format("admin: {0}\nclaims: {{listen: {0}}}\nlog: {{access: {0}, level: {0}}}\n"
                           "upstreams: {{a: {{servers: http://x, forwarded: {0}, via: {0}}}}}",
                           no));
    EXPECT_EQ(config.admin, "off") << no;
    EXPECT_EQ(config.claims.listen, "off") << no;
    EXPECT_FALSE(config.log.access) << no;
    EXPECT_EQ(config.log.level, LogLevel::off) << no;
    EXPECT_EQ(config.upstreams.at(0).forwarded, ForwardedFields::off) << no;
    EXPECT_FALSE(config.upstreams.at(0).via) << no;
  }
}

TEST(ConfigLoad, the_route_wins_over_its_dialect_wins_over_defaults_win_over_their_dialect) {
  const Config config = parsed(R"(
defaults:
  ttl: 1h
  key: {header: X-Default}
  dialect: platform
routes:
  - path: /inherits
  - path: /chooses
    key: {header: X-Own}
    dialect: stripe
)");
  EXPECT_EQ(config.defaults.dialect, "platform");
  EXPECT_EQ(config.defaults.key.header, "X-Default") << "beats the dialect, though the dialect stands below it";
  EXPECT_EQ(config.defaults.methods.count(), 3U) << "from the dialect";
  const Policy& inherits = config.routes.at(0).policy;
  EXPECT_EQ(inherits.dialect, "platform");
  EXPECT_EQ(inherits.key.header, "X-Default");
  EXPECT_EQ(inherits.wording.in_flight_detail, "Request is being processed");
  const Policy& chooses = config.routes.at(1).policy;
  EXPECT_EQ(chooses.dialect, "stripe");
  EXPECT_EQ(chooses.key.header, "X-Own");
  EXPECT_EQ(chooses.wording.mismatch_status, 400);
  EXPECT_EQ(chooses.wording.replay_header, "Idempotent-Replayed");
  EXPECT_EQ(chooses.ttl, 1h) << "no dialect says anything about the ttl";
}

TEST(ConfigLoad, what_is_no_setting_follows_from_those_that_are) {
  const Config usual = parsed("");
  EXPECT_EQ(usual.pool.keyed_idle_max, 1s);
  EXPECT_EQ(usual.journal.segment_bytes, std::size_t{64} << 20U);
  EXPECT_EQ(usual.journal.segment_age, 1h);
  EXPECT_EQ(usual.server.sweep_every, 1min);
  EXPECT_EQ(usual.server.wait_timeout, 1s);
  EXPECT_EQ(usual.limits.max_uri_bytes, 8192U);
  EXPECT_EQ(usual.timeouts.handover, 35s);
  EXPECT_EQ(usual.claims.max_progress, usual.claims.max_body);
  EXPECT_EQ(parsed("journal: {max_disk: 4MiB}").journal.segment_bytes, std::size_t{1} << 20U);
  const Override overrides[] = {{"--set", "upstreams.default.health.interval", "200ms"}};
  const Config other = parsed(R"(
upstreams: {default: {servers: http://a}}
pool: {idle_max: 2m}
server: {timeout: 500ms}
limits: {max_header_bytes: 4KiB}
timeouts: {drain: 10s}
claims: {max_body: 2KiB}
journal: {max_disk: 320MiB}
defaults: {ttl: 1m}
routes: [{path: /x, ttl: 7d}, {path: /y, ttl: 48s}]
)",
                              overrides);
  EXPECT_EQ(other.pool.keyed_idle_max, 30s);
  EXPECT_EQ(other.journal.segment_bytes, std::size_t{2} << 20U);
  EXPECT_EQ(other.journal.segment_age, 2s) << "by the shortest ttl of a route";
  EXPECT_EQ(other.server.sweep_every, 2s);
  EXPECT_EQ(other.server.wait_timeout, 100ms);
  EXPECT_EQ(other.limits.max_uri_bytes, 1024U);
  EXPECT_EQ(other.timeouts.handover, 30s);
  EXPECT_EQ(other.claims.max_progress, 2048U);
  EXPECT_EQ(other.upstreams.at(0).fail_timeout, 400ms);
  EXPECT_EQ(other.upstreams.at(0).eject.time, 400ms);
  EXPECT_EQ(other.upstreams.at(0).eject.max_time, 12s);
}

// In whichever section it stood: its line, and what became of it.
TEST(ConfigLoad, a_removed_setting_is_reported_where_it_stands) {
  for (const RemovedSetting& setting : removed_settings()) {
    std::string nested = fmt::format("{}: 1", setting.name);
    for (std::size_t dot = nested.rfind('.'); dot != std::string::npos; dot = nested.rfind('.', dot)) {
      nested = fmt::format("{}: {{{}}}", nested.substr(0, dot), nested.substr(dot + 1));
    }
    const std::string wanted = fmt::format("\"{}\" is no longer a setting: {}\n", setting.name, setting.instead);
    int found = 0;
    for (const std::string_view section : {"{}", "defaults: {{{}}}", "routes: [{{path: /x, {}}}]",
                                           "upstreams: {{default: {{servers: http://a, {}}}}}"}) {
      const std::string errors = errors_of("listen: off\n" + fmt::format(fmt::runtime(section), nested));
      if (errors.starts_with("once.yaml:2:") && errors.ends_with(wanted)) ++found;
    }
    EXPECT_GT(found, 0) << nested;
    for (const std::string_view section : {"", "defaults.", "upstreams.default."}) {
      const Override change[] = {{"--set", fmt::format("{}{}", section, setting.name), "1"}};
      if (errors_of("upstreams: {default: http://a}", change) == "--set: " + wanted) ++found;
    }
    EXPECT_GT(found, 1) << "on the command line: " << setting.name;
  }
}

TEST(ConfigLoad, a_dialect_can_be_gone_back_on) {
  const Config config = parsed("defaults: {dialect: stripe}\nroutes: [{path: /x, dialect: ietf}]");
  EXPECT_FALSE(config.routes.at(0).policy.wording.error_object);
  EXPECT_EQ(config.routes.at(0).policy.wording.mismatch_status, 422);
}

TEST(ConfigLoad, fewer_refusals_are_recorded_instead) {
  const Config config = parsed("defaults: {record: {refusals: [429]}}");
  EXPECT_EQ(settle(Delivery::whole, 401, {}, config.defaults.record).kind, Settlement::Kind::succeed);
  EXPECT_EQ(settle(Delivery::whole, 429, {}, config.defaults.record).kind, Settlement::Kind::release);
}

TEST(ConfigLoad, flags_come_after_the_file_and_before_routes) {
  const Override overrides[] = {{"--listen", "listen", "0.0.0.0:1"},
                                {"--upstream", "upstreams.default", "http://c"},
                                {"--set defaults.key.methods", "defaults.key.methods", "[PUT]"},
                                {"--set defaults.dialect", "defaults.dialect", "stripe"}};
  const Config config = parsed("listen: a:1\nupstreams: {b: http://b}\nroutes: [{path: /x}]", overrides);
  EXPECT_EQ(config.listen, "0.0.0.0:1");
  EXPECT_EQ(config.upstreams.at(0).servers.at(0).host, "c");
  EXPECT_EQ(config.routes.at(0).policy.methods.count(), 1U);
  EXPECT_TRUE(config.routes.at(0).policy.methods.test(static_cast<std::size_t>(Method::put)));
  EXPECT_TRUE(config.routes.at(0).policy.wording.error_object);
}

TEST(ConfigLoad, an_upstream_may_have_settings_of_its_own) {
  const Config config = parsed(R"(
trusted_proxies: [10.0.0.0/8, unix]
upstreams:
  one: http://one
  default:
    servers: [http://a, "http://[::1]:9000", "unix:/run/b.sock"]
    base_path: /v1/
    balance: least_connections
    max_connections: 7
    queue: 8
    health: {path: /up, interval: 1s}
    host: api.internal:81
    forwarded: both
routes: [{path: /api/**, strip_prefix: /api/}]
)");
  ASSERT_EQ(config.upstreams.size(), 2U);
  const Upstream& upstream = config.upstreams[0];
  EXPECT_EQ(upstream.name, "default");
  EXPECT_EQ(upstream.where.line, 5);
  ASSERT_EQ(upstream.servers.size(), 3U);
  EXPECT_EQ(upstream.servers[1].host, "::1");
  EXPECT_EQ(upstream.servers[1].port, 9000);
  EXPECT_EQ(upstream.servers[2].socket, "/run/b.sock");
  EXPECT_EQ(upstream.base_path, "/v1");
  EXPECT_EQ(upstream.balance, Balance::least_connections);
  EXPECT_EQ(upstream.max_connections, 7U);
  EXPECT_EQ(upstream.queue, 8U);
  EXPECT_EQ(upstream.health.path, "/up");
  EXPECT_EQ(upstream.fail_timeout, 2s) << "twice the interval";
  EXPECT_EQ(upstream.host, "api.internal:81");
  EXPECT_EQ(upstream.forwarded, ForwardedFields::both);
  EXPECT_EQ(config.routes.at(0).strip_prefix, "/api");
  EXPECT_EQ(config.trusted_proxies.size(), 2U);
}

TEST(ConfigLoad, flags_reach_into_an_upstream) {
  const Override overrides[] = {{"--upstream", "upstreams.default", "http://c/base"},
                                {"--set", "upstreams.default.queue", "5"},
                                {"--set", "upstreams.b.servers", "http://d,http://e"}};
  const Config config =
      parsed("upstreams: {b: http://b, default: {servers: [http://a, http://b], host: upstream}}", overrides);
  EXPECT_EQ(config.upstreams.at(0).servers.size(), 1U);
  EXPECT_EQ(config.upstreams.at(0).base_path, "/base");
  EXPECT_EQ(config.upstreams.at(0).host, "upstream") << "a URL says where it is and nothing else";
  EXPECT_EQ(config.upstreams.at(0).queue, 5U);
  EXPECT_EQ(config.upstreams.at(1).servers.size(), 2U);
  const Override wrong[] = {{"--set a", "upstreams.nobody.queue", "5"}, {"--set b", "upstreams.x.queu", "5"}};
  EXPECT_EQ(errors_of("upstreams: {x: http://x}", wrong),
            "--set a: there is no upstream \"nobody\"\n"
            "--set b: unknown setting \"queu\"; did you mean \"queue\"?\n");
}

TEST(ConfigLoad, mistakes_in_flags_are_worded_alike) {
  const Override overrides[] = {{"--listen", "listen", "x"},
                                {"--set lisen", "lisen", "x"},
                                {"--set ttl", "ttl", "1h"},
                                {"--set defaults.tll", "defaults.tll", "1h"},
                                {"--set upstreams", "upstreams", "x"},
                                {"--upstream", "upstreams.default", "x"}};
  EXPECT_EQ(errors_of("", overrides),
            "--listen: expected an address such as 127.0.0.1:8080 or [::1]:8080, or off, got \"x\"\n"
            "--set defaults.tll: unknown setting \"tll\"; did you mean \"ttl\"?\n"
            "--set lisen: unknown setting \"lisen\"; did you mean \"listen\"?\n"
            "--set ttl: unknown setting \"ttl\"; did you mean \"defaults.ttl\"?\n"
            "--set upstreams: expected upstreams.NAME\n"
            "--upstream: expected a URL such as http://127.0.0.1:9000, got \"x\"\n");
}

TEST(ConfigLoad, set_takes_name_and_value) {
  const auto change = parse_override("log.level=debug=x");
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(change->setting, "log.level");
  EXPECT_EQ(change->value, "debug=x");
  EXPECT_EQ(change->flag, "--set log.level");
  for (const char* bad : {"", "log.level", "=x"}) EXPECT_FALSE(parse_override(bad).has_value()) << bad;
  EXPECT_EQ(to_string(parse_override("x").error()), "--set: expected name=value such as log.level=debug, got \"x\"");
}

TEST(ConfigLoad, files_that_cannot_be_read) {
  const auto missing = load("/nonexistent/once.yaml");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(to_string(missing.error().at(0)), "/nonexistent/once.yaml: cannot be read: No such file or directory");
  EXPECT_FALSE(load("/").has_value());
  EXPECT_TRUE(load("").has_value());
}

}  // namespace once::config::load_test
