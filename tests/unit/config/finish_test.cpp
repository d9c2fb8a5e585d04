#include "config/finish.hpp"

#include <gtest/gtest.h>

#include "config/settings.hpp"

namespace once {
namespace finish_test {

std::string lines(const ConfigErrors& errors) {
  std::string all;
  for (const ConfigError& error : errors) all += to_string(error) + "\n";
  return all;
}

Config parsed(std::string_view text) {
  const auto config = parse(text, "once.yaml");
  EXPECT_TRUE(config.has_value()) << (config ? "" : lines(config.error()));
  return config.value_or(Config());
}

struct Case {
  const char* yaml;
  const char* errors;
  const char* warnings;
};

// clang-format off
const Case cases[] = {
  {"upstreams: {a: http://a}", "", ""},
  {"", "no backend: say where requests go, with --upstream http://HOST:PORT or upstreams: in the configuration file\n", ""},
  {"upstreams: {a: http://a}\ndefaults: {ttl: 10s, on_unknown: takeover}", "once.yaml:2:1: lease (30s) must be shorter than ttl (10s)\n",
   "once.yaml:2:1: takeover_after (5m) is not shorter than ttl (10s): the key expires before anyone takes over\n"},
  {"upstreams: {a: http://a}\nroutes:\n  - path: /x\n    lease: 1m\n    ttl: 1m\n    on_unknown: hold",
   "once.yaml:3:5: lease (1m) must be shorter than ttl (1m)\n", ""},
  {"upstreams: {payments: http://a}\nroutes: [{path: /x, upstream: payment}]",
   "once.yaml:2:10: upstream: there is no upstream \"payment\"; did you mean \"payments\"?\n", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, fingerprint: {exclude: [/t], include: [/a]}}]",
   "once.yaml:2:10: fingerprint.include needs fingerprint.body: json\n"
   "once.yaml:2:10: fingerprint.exclude needs fingerprint.body: json\n", ""},
  {"upstreams: {a: http://a}\ndefaults: {caller: ['header:a', 'header:b', 'header:c', 'header:d', 'header:e', 'header:f', "
   "'header:g', 'header:h', 'cookie:i']}", "once.yaml:2:1: caller: at most 8 sources, got 9\n", ""},
  {"upstreams: {a: http://a}\nlisten: 127.0.0.1:1\nadmin: 127.0.0.1:1", "listen and admin are both 127.0.0.1:1\n", ""},
  {"upstreams: {a: http://a}\nlisten: localhost:0\nadmin: localhost:0", "", ""},
  {"upstreams: {a: http://a}\nadmin: '[::1]:1'", "", ""},
  {"upstreams: {a: http://a}\nadmin: 127.9.9.9:1", "", ""},
  {"upstreams: {a: http://a}\nadmin: 127.page.test:1",
   "once.yaml:2:8: admin is 127.page.test:1: from other machines anybody could see and change everything, so admin_token is needed, "
   "such as admin_token: file:/etc/once/admin-token; without one use 127.0.0.1\n", ""},
  {"upstreams: {a: http://a}\nadmin: 0.0.0.0:1\nadmin_token: env:ONCE_ADMIN_TOKEN", "", ""},
  {"upstreams: {a: http://a}\npool: {idle_max: 1s, keyed_idle_max: 2s}",
   "pool.keyed_idle_max (2s) must not be longer than pool.idle_max (1s)\n", ""},
  {"upstreams: {a: http://a}\nlimits: {max_uri_bytes: 8KiB, max_header_bytes: 4KiB}",
   "limits.max_uri_bytes (8KiB) must not be larger than limits.max_header_bytes (4KiB)\n", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, caller: none}]", "",
   "once.yaml:2:10: caller is none: callers that use the same key are given each other's answers\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, caller: none, scope: [path]}]", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, caller: 'jwt:sub', caller_missing: reject}]",
   "once.yaml:2:10: caller: jwt:sub needs a key to check tokens with: jwt.keys or jwt.secrets\n", ""},
  {"upstreams: {a: http://a}\njwt: {keys: /x}\nroutes: [{path: /x, caller: 'jwt:sub', caller_missing: reject}]", "", ""},
  {"upstreams: {a: http://a}\njwt: {secrets: /x}\nroutes: [{path: /x, caller: ['header:X', 'jwt:sub']}]", "",
   "once.yaml:3:10: caller: jwt:sub with caller_missing: anonymous: requests without one that use the same key are given each "
   "other's answers; caller_missing: reject refuses them\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, caller: 'mtls:subject', caller_missing: reject}]",
   "once.yaml:2:10: caller: mtls:subject needs clients that show a certificate: tls.listen and tls.client_ca\n", ""},
  {"upstreams: {a: http://a}\ntls: {listen: 127.0.0.1:1, certificates: /x, client_ca: /y}\nroutes: [{path: /x, caller: 'mtls:subject'}]", "",
   "once.yaml:3:10: caller: mtls:subject with caller_missing: anonymous: requests without one that use the same key are given "
   "each other's answers; caller_missing: reject refuses them\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, scope: [path], caller_missing: reject}]", "",
   "once.yaml:2:10: caller_missing: reject does nothing: the caller is not part of scope\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, scope: [path, life]}]", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, scope: [caller, life]}]",
   "once.yaml:2:10: scope: life needs path: it is the life of what the path names\n", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, scope: [path, life], mode: shadow}]", "",
   "once.yaml:2:10: scope: life does nothing with mode: shadow\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, methods: [POST], scope: [path, life]}]", "",
   "once.yaml:2:10: scope: life: nothing ends it, no route for /x takes a method of life.ended_by\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, methods: [POST], scope: [path, life]}, {path: /x, scope: [path, life]}]", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, caller: client-ip}]\ntrusted_proxies: [10.0.0.0/8, '::1', unix]", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, caller: 'proxy-header:X-Org'}]\ntrusted_proxies: 10.0.0.1", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, caller: 'proxy-header:X-Org', scope: path}]", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, dialect: workflow}]",
   "once.yaml:2:10: caller: proxy-header:X-Org-Id needs trusted_proxies, to name the proxy that sets this header\n", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, caller: 'header:X-Org'}]", "",
   "once.yaml:2:10: caller: header:X-Org: clients can set this header themselves and be given the answers of others; if a "
   "proxy sets it, say proxy-header:X-Org and trusted_proxies\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, caller: ['header:X-Org', 'header:Authorization']}, {path: /y, caller: "
   "'header:X-API-Key'}, {path: /z, caller: 'cookie:sid'}, {path: /v, caller: 'header:X-Org', scope: path}]", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, cors: {origins: '*'}}]", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, cors: {origins: ['*', 'https://a.example'], credentials: yes}}]",
   "once.yaml:2:10: cors.origins: * is everybody, and stands alone\n"
   "once.yaml:2:10: cors.credentials needs cors.origins by name: with * every page could act as its visitor\n", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, cors: {credentials: yes}}]",
   "once.yaml:2:10: cors.credentials needs cors.origins\n", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, record: {statuses: [401]}}]", "",
   "once.yaml:2:10: no status is recorded: every retry executes again\n"},
  {"upstreams: {a: http://a}\nroutes:\n  - path: /**\n    methods: [POST]\n  - path: /x\n    methods: [POST]\n  - path: /y", "",
   "once.yaml:5:5: never taken: the route for /** before it matches all of this\n"},
  {"upstreams: {a: http://a}\nsame_hosts: [a.example b.example, 'c:8080 [::1]:80']", "", ""},
  {"upstreams: {a: http://a}\nsame_hosts: ['*']", "", ""},
  {"upstreams: {a: http://a}\nsame_hosts: ['*', a b]", "same_hosts: * is every host, and stands alone\n", ""},
  {"upstreams: {a: http://a}\nsame_hosts: [a b, 'c B.:80']", "same_hosts: b is there twice\n", ""},
  {"upstreams: {a: http://a}\nenvironment: production\nadmin: off\ndefaults: {caller_missing: anonymous}", "", ""},
  {"upstreams: {a: http://a}\nenvironment: production\nadmin_token: env:T\ndefaults: {caller_missing: anonymous}", "", ""},
  {"upstreams: {a: http://a}\nenvironment: production\ndefaults: {caller_missing: anonymous}", "once.yaml:2:14: environment is production and admin is 127.0.0.1:8081: everybody on this machine could see and change everything, so admin_token is needed, such as admin_token: file:/etc/once/admin-token; without one use admin: off\n", ""},
  {"upstreams: {a: {servers: http://a, max_connections: 2}}\nthreads: 4", "",
   "once.yaml:1:13: upstreams.a.max_connections (2) is less than threads (4): each thread has one all the same\n"},
  {"upstreams: {a: http://a}\njournal: {cache: 1GiB}", "journal.cache (1GiB) must be smaller than journal.max_memory (1GiB)\n", ""},
  {"upstreams: {a: http://a}\njournal: {max_disk: 100MiB}", "journal.segment_size (64MiB) must not be larger than a quarter of journal.max_disk (100MiB)\n", ""},
  {"upstreams: {a: http://a}\nclaims: {listen: 127.0.0.1:1}",
   "claims.listen is 127.0.0.1:1: anybody who can connect could end the work of others, so claims.tokens is needed, on loopback "
   "too; without tokens use unix:/path/to.sock\n", ""},
  {"upstreams: {a: http://a}\nclaims: {listen: 'unix:/x'}", "", ""},
  {"upstreams: {a: http://a}\nclaims: {listen: 127.0.0.1:1, tokens: {acme: /x}}", "", ""},
  {"upstreams: {a: http://a}\nadmin: localhost:1\nclaims: {listen: localhost:1, tokens: {acme: /x}}",
   "claims.listen is localhost:1, where something else is served\n", ""},
  {"upstreams: {a: http://a}\nstore: redis://h\ndefaults: {lease: 9s}", "", ""},
  {"upstreams: {a: http://a}\nstore: redis://h\ndefaults: {lease: 8s}", "",
   "once.yaml:3:1: lease (8s) is not longer than one call of the store may take (8s: server.connect_timeout and server.timeout, "
   "with replicas redis.wait_timeout): while the store is slow, requests get 503\n"},
  {"upstreams: {a: http://a}\nstore: redis://h\nredis: {wait_replicas: 1}\ndefaults: {lease: 9s}", "",
   "once.yaml:4:1: lease (9s) is not longer than one call of the store may take (9s: server.connect_timeout and server.timeout, "
   "with replicas redis.wait_timeout): while the store is slow, requests get 503\n"},
  {"upstreams: {a: http://a}\nstore: memory\ndefaults: {lease: 1s}", "", ""},
  {"upstreams: {a: http://a}\ntimeouts: {drain: 60s}", "", ""},
  {"upstreams: {a: http://a}\ntimeouts: {drain: 59s}", "",
   "timeouts.drain (59s) is shorter than timeouts.response (1m) of the route for /**: a restart cuts off requests that are still "
   "waited for, and their outcomes are unknown\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, timeouts: {response: 71s}}, {path: /y, timeouts: {response: 2m}}, {path: /**}]", "",
   "timeouts.drain (70s) is shorter than timeouts.response (2m) of the route for /y: a restart cuts off requests that are still "
   "waited for, and their outcomes are unknown\n"},
  {"upstreams: {a: http://a}\ndefaults: {on_unknown: takeover, takeover_after: 60s}", "", ""},
  {"upstreams: {a: http://a}\ndefaults: {on_unknown: takeover, takeover_after: 59s}", "",
   "once.yaml:2:1: takeover_after (59s) is shorter than timeouts.response (1m): a retry may execute while the backend is still at "
   "work on the attempt before it\n"},
  {"upstreams: {a: http://a}\ndefaults: {on_unknown: hold, takeover_after: 59s}", "", ""},
  {"upstreams: {a: http://a}\nenvironment: production\nadmin: off\nstore: memory\ndefaults: {caller_missing: reject}", "", "store: memory: forgets every answer when the process ends\n"},
};
// clang-format on

// In every one of these that says nothing of it; it has a test of its own.
ConfigErrors without_missing_callers(ConfigErrors warnings) {
  std::erase_if(warnings, [](const ConfigError& each) { return each.text.starts_with("caller_missing is not set"); });
  return warnings;
}

TEST(ConfigCheck, what_does_not_belong_together) {
  for (const Case& c : cases) {
    Config config = parsed(c.yaml);
    const Checked checked = check(config);
    EXPECT_EQ(lines(checked.errors), c.errors) << c.yaml;
    EXPECT_EQ(lines(without_missing_callers(checked.warnings)), c.warnings) << c.yaml;
  }
}

TEST(ConfigCheck, in_production_nobody_shares_a_caller_unless_somebody_said_so) {
  const std::string text = "caller_missing is not set: say reject, or anonymous if requests with a key and without ";
  const std::string rest = " may share one caller and be given each other's answers";
  const auto checked = [](const std::string& yaml) {
    Config config = parsed("upstreams: {a: http://a}\n" + yaml);
    config.admin = "off";
    const Checked found = check(config);
    return lines(found.errors) + "|" + lines(found.warnings);
  };
  const std::string authorization = "header:Authorization" + rest;
  EXPECT_EQ(checked(""), "|" + text + authorization + "\n");
  EXPECT_EQ(checked("environment: production"), text + authorization + "\n|");
  EXPECT_EQ(checked("defaults: {ttl: 1h}\nenvironment: production"), "once.yaml:2:1: " + text + authorization + "\n|");
  for (const std::string said : {"reject", "anonymous"}) {
    EXPECT_EQ(checked("environment: production\ndefaults: {caller_missing: " + said + "}"), "|");
    EXPECT_EQ(checked("environment: production\nroutes: [{path: /a, caller_missing: " + said + "}]"), "|");
  }
  const std::string two =
      "routes:\n  - path: /a\n  - {path: /b, caller: 'header:X-Api-Key'}\n  - {path: /c, caller_missing: reject}";
  EXPECT_EQ(checked("environment: production\n" + two),
            "once.yaml:4:5: " + text + authorization + "\nonce.yaml:5:5: " + text + "header:X-Api-Key" + rest + "\n|");
  EXPECT_EQ(checked(two), "|once.yaml:3:5: " + text + authorization + " (and for 1 more route)\n");
  // Nothing to share, or always there.
  EXPECT_EQ(checked("environment: production\nroutes: [{path: /a, caller: client-ip}, {path: /b, scope: path}]"), "|");
}

TEST(ConfigCheck, without_routes_there_is_one_for_everything) {
  Config config = parsed("upstreams: {a: http://a, b: http://b}\ndefaults: {dialect: stripe}");
  EXPECT_TRUE(check(config).errors.empty());
  ASSERT_EQ(config.routes.size(), 1U);
  EXPECT_EQ(config.routes[0].path, "/**");
  EXPECT_EQ(config.routes[0].upstream, "a");
  EXPECT_EQ(config.routes[0].policy.dialect, "stripe");
}

TEST(ConfigCheck, the_end_of_a_life_is_remembered_for_longer_than_any_key_of_any_route) {
  Config config = parsed(
      "upstreams: {a: http://a}\n"
      "routes: [{path: /x, methods: [POST], scope: [path, life], ttl: 48h, tombstone: 1h}, {path: /x, scope: [path, "
      "life]}, "
      "{path: /y}]");
  EXPECT_TRUE(check(config).errors.empty());
  EXPECT_GT(config.routes.at(1).policy.life.remembered, std::chrono::hours(49));
  EXPECT_EQ(config.routes.at(0).policy.life.remembered, config.routes.at(1).policy.life.remembered);
  EXPECT_EQ(config.routes.at(2).policy.life.remembered, Duration::zero());
}

TEST(ConfigCheck, routes_without_upstream_go_to_the_default_one) {
  Config config = parsed("upstreams: {a: http://a, default: http://b}\nroutes: [{path: /x}, {path: /y, upstream: a}]");
  EXPECT_TRUE(check(config).errors.empty());
  EXPECT_EQ(config.routes.at(0).upstream, "default");
  EXPECT_EQ(config.routes.at(1).upstream, "a");
}

std::optional<std::string> nothing_set(std::string_view /*name*/) {
  return std::nullopt;
}

TEST(ConfigCheck, every_file_that_a_setting_names_is_read_and_every_mistake_told) {
  Config config = parsed(
      "upstreams: {a: http://a}\n"
      "admin_token: file:/nowhere/admin\n"
      "claims: {listen: localhost:1, tokens: {acme: /nowhere/acme, other: /nowhere/other}}\n"
      "encryption: {keys: [/nowhere/new, /nowhere/old]}\n"
      "jwt: {keys: [/nowhere/keys.json]}\n");
  EXPECT_EQ(lines(read_files(config).errors),
            "claims.tokens.acme: cannot read the secret in /nowhere/acme: No such file or directory\n"
            "claims.tokens.other: cannot read the secret in /nowhere/other: No such file or directory\n"
            "jwt.keys: cannot read /nowhere/keys.json: No such file or directory\n"
            "encryption.keys: cannot read the secret in /nowhere/new: No such file or directory\n"
            "encryption.keys: cannot read the secret in /nowhere/old: No such file or directory\n");
  EXPECT_EQ(lines(check_secrets(config, nothing_set).errors),
            "admin_token: cannot read the secret in /nowhere/admin: No such file or directory\n");
}

TEST(ConfigCheck, that_the_secret_is_missing_is_told_with_the_rest) {
  Config config = parsed(
      "upstreams: {a: http://a}\nenvironment: production\nadmin_token: file:/nowhere/admin\ndefaults: {caller_missing: "
      "reject}\n");
  SystemRandom random;
  const auto finished = finish(config, nothing_set, random);
  ASSERT_FALSE(finished.has_value());
  ASSERT_EQ(finished.error().size(), 2U) << lines(finished.error());
  EXPECT_TRUE(finished.error()[1].text.contains("ONCE_SECRET")) << lines(finished.error());
}

TEST(ConfigCheck, finds_every_secret_that_serving_would_miss) {
  for (const std::string_view text :
       {"environment: production\nadmin: off\ndefaults: {caller_missing: reject}\n", "store: 'redis://127.0.0.1:1'\n",
        "admin_token: env:TOKEN\n", "secret_file: /nowhere/secret\n"}) {
    Config config = parsed("upstreams: {a: http://a}\n" + std::string(text));
    Checked told = check(config);
    EXPECT_EQ(lines(told.errors), "") << text;
    told = check_secrets(config, nothing_set);
    SystemRandom random;
    const auto finished = finish(config, nothing_set, random);
    ASSERT_FALSE(finished.has_value()) << text;
    EXPECT_EQ(lines(told.errors), lines(finished.error())) << text;
  }
}

TEST(ConfigCheck, a_variable_that_is_not_set_or_too_short_is_told) {
  Config config = parsed("upstreams: {a: http://a}\nadmin_token: env:TOKEN\n");
  const Checked checked = check_secrets(config, nothing_set);
  EXPECT_EQ(lines(checked.errors), "admin_token: the environment variable TOKEN is not set\n");
  const Checked shorter = check_secrets(config, [](std::string_view name) -> std::optional<std::string> {
    return name == "TOKEN" ? std::optional<std::string>("short") : std::nullopt;
  });
  EXPECT_EQ(lines(shorter.errors),
            "admin_token: TOKEN has 5 bytes, 16 to 4096 are needed; make one with: openssl rand -hex 32\n");
}

}  // namespace finish_test
}  // namespace once
