#include "config/prepare.hpp"

#include <filesystem>
#include <utility>

#include <gtest/gtest.h>

#include "config/settings.hpp"

namespace once::config::prepare_test {

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
  {"", "no upstream: give one with --upstream http://HOST:PORT or with upstreams: in the configuration file\n", ""},
  {"upstreams: {a: http://a}\ndefaults: {ttl: 10s, on_unknown: takeover, takeover_after: 10m}",
   "once.yaml:2:17: lease (30s) must be shorter than ttl (10s)\n",
   "once.yaml:2:60: takeover_after (10m) is not shorter than the time for which an unknown key is kept (430s): the key expires "
   "before a takeover\n"},
  {"upstreams: {a: http://a}\nroutes:\n  - path: /x\n    lease: 1m\n    ttl: 1m\n    on_unknown: hold",
   "once.yaml:4:12: lease (1m) must be shorter than ttl (1m)\n", ""},
  {"upstreams: {payments: http://a}\nroutes: [{path: /x, upstream: payment}]",
   "once.yaml:2:31: upstream: there is no upstream \"payment\"; did you mean \"payments\"?\n", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, fingerprint: {exclude: [/t], include: [/a]}}]",
   "once.yaml:2:59: fingerprint.include needs fingerprint.body: json\n"
   "once.yaml:2:44: fingerprint.exclude needs fingerprint.body: json\n", ""},
  {"upstreams: {a: http://a}\ndefaults: {caller: ['header:a', 'header:b', 'header:c', 'header:d', 'header:e', 'header:f', "
   "'header:g', 'header:h', 'cookie:i']}", "once.yaml:2:20: caller: at most 8 sources, got 9\n", ""},
  {"upstreams: {a: http://a}\nlisten: 127.0.0.1:1\nadmin: 127.0.0.1:1", "once.yaml:3:8: listen and admin are both 127.0.0.1:1\n", ""},
  {"upstreams: {a: http://a}\nlisten: localhost:0\nadmin: localhost:0", "", ""},
  {"upstreams: {a: http://a}\nadmin: '[::1]:1'", "", ""},
  {"upstreams: {a: http://a}\nadmin: 127.9.9.9:1", "", ""},
  {"upstreams: {a: http://a}\nadmin: 127.page.test:1",
   "once.yaml:2:8: admin is 127.page.test:1: other machines would have full access, so admin_token is required, such "
   "as admin_token: file:/etc/once/admin-token; without one use 127.0.0.1\n", ""},
  {"upstreams: {a: http://a}\nadmin: 0.0.0.0:1\nadmin_token: env:ONCE_ADMIN_TOKEN", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, caller: none}]", "",
   "once.yaml:2:29: caller is none: callers that use the same key get each other's responses\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, caller: none, scope: [path]}]", "", ""},
  {"listen: 0.0.0.0:8080\nupstreams: {a: {servers: ['http://b:8080', 'http://LocalHost:8080']}}",
   "once.yaml:2:13: upstreams.a: LocalHost:8080 is this gateway's own address (listen: 0.0.0.0:8080); requests would loop. Give the address of the backend\n", ""},
  {"listen: '[::1]:8080'\nupstreams: {a: 'http://[::1]:8080'}",
   "once.yaml:2:16: upstreams.a: [::1]:8080 is this gateway's own address (listen: [::1]:8080); requests would loop. Give the address of the backend\n", ""},
  {"listen: localhost:8080\nupstreams: {a: http://127.0.0.1:8080}",
   "once.yaml:2:16: upstreams.a: 127.0.0.1:8080 is this gateway's own address (listen: localhost:8080); requests would loop. Give the address of the backend\n", ""},
  {"listen: 127.0.0.2:8080\nupstreams: {a: http://127.0.0.1:8080, b: 'http://10.0.0.1:8080', c: 'http://127.0.0.2:8081', d: 'unix:/run/b.sock'}", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, caller: 'jwt:sub', caller_missing: reject}]",
   "once.yaml:2:29: caller: jwt:sub needs a key to verify tokens: set jwt.keys or jwt.secrets\n", ""},
  {"upstreams: {a: http://a}\njwt: {keys: /x}\nroutes: [{path: /x, caller: 'jwt:sub', caller_missing: reject}]", "", ""},
  {"upstreams: {a: http://a}\njwt: {secrets: /x}\nroutes: [{path: /x, caller: ['header:X', 'jwt:sub']}]", "",
   "once.yaml:3:29: caller: jwt:sub with caller_missing: anonymous: requests without a caller that use the same key "
   "get each other's responses; caller_missing: reject refuses them\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, caller: 'mtls:subject', caller_missing: reject}]",
   "once.yaml:2:29: caller: mtls:subject needs client certificates: set tls.listen and tls.client_ca\n", ""},
  {"upstreams: {a: http://a}\ntls: {listen: 127.0.0.1:1, certificates: /x, client_ca: /y}\nroutes: [{path: /x, caller: 'mtls:subject'}]", "",
   "once.yaml:3:29: caller: mtls:subject with caller_missing: anonymous: requests without a caller that use the same "
   "key get each other's responses; caller_missing: reject refuses them\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, scope: [path], caller_missing: reject}]", "",
   "once.yaml:2:28: the caller is not part of scope: callers that use the same key get each other's responses; add caller to scope, or set "
   "caller: none if this is intended\n"
   "once.yaml:2:52: caller_missing: reject has no effect: the caller is not part of scope\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, scope: [path, life], caller: none}]", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, scope: [path, life]}]", "", "once.yaml:2:28: the caller is not part of scope: callers that use the same key get each other's responses; add caller to scope, or set "
   "caller: none if this is intended\n"},
  {"upstreams: {a: http://a}\ndefaults: {dialect: streams}\nroutes: [{path: /x}, {path: /y}]", "",
   "once.yaml:2:21: the caller is not part of scope: callers that use the same key get each other's responses; add caller to scope, or set "
   "caller: none if this is intended\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, dialect: streams, scope: [caller, path]}, {path: /y, dialect: streams, caller: none}]", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, scope: [caller, life]}]",
   "once.yaml:2:28: scope: life needs path: it is the life of the resource at that path\n", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, scope: [path, life], mode: shadow, caller: none}]", "",
   "once.yaml:2:48: scope: life has no effect with mode: shadow\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, methods: [POST], scope: [path, life], caller: none}]", "",
   "once.yaml:2:45: scope: life never ends: no route for /x covers DELETE\n"},
  {"upstreams: {a: http://a}\ndefaults: {caller: none}\nroutes: [{path: /x, methods: [POST], scope: [path, life]}, {path: /x, scope: [path, life]}]", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, caller: client-ip}]\ntrusted_proxies: [10.0.0.0/8, '::1', unix]", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, caller: 'proxy-header:X-Org'}]\ntrusted_proxies: 10.0.0.1", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, caller: 'proxy-header:X-Org', scope: path}]", "", "once.yaml:2:58: the caller is not part of scope: callers that use the same key get each other's responses; add caller to scope, or set "
   "caller: none if this is intended\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, dialect: workflow}]",
   "once.yaml:2:30: caller: proxy-header:X-Org-Id needs trusted_proxies: list the proxy that sets this header\n", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, caller: 'header:X-Org'}]", "",
   "once.yaml:2:29: caller: header:X-Org: clients can set this header themselves and get the responses of others; if "
   "a proxy sets it, use proxy-header:X-Org and trusted_proxies\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, caller: ['header:X-Org', 'header:Authorization']}, {path: /y, caller: "
   "'header:X-API-Key'}, {path: /z, caller: 'cookie:sid'}]", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, conditional: {if_match: on}}]", "",
   "once.yaml:2:45: conditional.if_match without keys on PUT: a retry of a write that succeeded gets 412, because the write itself has "
   "changed the ETag; add PUT to key.methods\n"},
  {"upstreams: {a: http://a}\ndefaults: {key: {methods: POST}, conditional: {if_match: required}}", "",
   "once.yaml:2:27: conditional.if_match without keys on PUT and PATCH: a retry of a write that succeeded gets 412, because the write "
   "itself has changed the ETag; add PUT and PATCH to key.methods\n"},
  {"upstreams: {a: http://a}\ndefaults: {conditional: {if_match: on}}\nroutes: [{path: /a, key: {methods: [PUT, PATCH]}}, "
   "{path: /b, methods: [POST, PATCH, DELETE]}, {path: /c, mode: shadow}, {path: /d, dialect: workflow}]\ntrusted_proxies: 10.0.0.1", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, conditional: {etag: on}}]", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, cors: {origins: '*'}}]", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, cors: {origins: ['*', 'https://a.example'], credentials: yes}}]",
   "once.yaml:2:37: cors.origins: * means every origin and cannot be combined with others\n"
   "once.yaml:2:78: cors.credentials needs explicit cors.origins: with * every page could act as its visitor\n", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, cors: {credentials: yes}}]",
   "once.yaml:2:41: cors.credentials needs cors.origins\n", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, record: {statuses: [401]}}]", "",
   "once.yaml:2:40: no status is recorded: every retry executes again\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, key: {methods: [QUERY, POST]}}]", "",
   "once.yaml:2:36: key.methods: QUERY is a safe method, on which a key has no effect: its requests pass through, with a key and without "
   "one\n"},
  {"upstreams: {a: http://a}\nroutes:\n  - path: /**\n    methods: [POST]\n  - path: /x\n    methods: [POST]\n  - path: /y", "",
   "once.yaml:5:5: this route is never used: the route for /** before it matches the same requests\n"},
  {"upstreams: {a: http://a}\ndefaults: {caller_missing: reject}\nroutes:\n  - {path: '/x/{id}'}\n  - {path: '/x/*/'}", "",
   "once.yaml:5:5: this route is never used: the route for /x/{id} before it matches the same requests\n"},
  {"upstreams: {a: http://a}\ndefaults: {caller_missing: reject}\nroutes:\n  - {path: /**, host: '*.a.test'}\n  - {path: /x, host: b.a.test}\n"
   "  - {path: /x, host: [b.a.test, a.test]}\n  - {path: /x}", "",
   "once.yaml:5:5: this route is never used: the route for *.a.test/** before it matches the same requests\n"},
  {"upstreams: {a: http://a}\nsame_hosts: [a.example b.example, 'c:8080 [::1]:80']", "", ""},
  {"upstreams: {a: http://a}\nsame_hosts: ['*']", "", ""},
  {"upstreams: {a: http://a}\nsame_hosts: ['*', a b]", "once.yaml:2:13: same_hosts: * means every host and cannot be combined with others\n", ""},
  {"upstreams: {a: http://a}\nsame_hosts: [a b, 'c B.:80']", "once.yaml:2:13: same_hosts: b is listed twice\n", ""},
  {"upstreams: {a: http://a}\nenvironment: production\nadmin: off\ndefaults: {caller_missing: anonymous}", "", ""},
  {"upstreams: {a: http://a}\nenvironment: production\nadmin_token: env:T\ndefaults: {caller_missing: anonymous}", "", ""},
  {"upstreams: {a: http://a}\nenvironment: production\ndefaults: {caller_missing: anonymous}", "once.yaml:2:14: environment is production and admin is 127.0.0.1:8081: every user of this machine would have full access, so admin_token is required, such as admin_token: file:/etc/once/admin-token; without one use admin: off\n", ""},
  {"upstreams: {a: {servers: http://a, max_connections: 2}}\nthreads: 4", "",
   "once.yaml:1:53: upstreams.a.max_connections (2) is less than threads (4): each thread still gets one connection\n"},
  {"upstreams: {a: http://a}\njournal: {cache: 1GiB}", "once.yaml:2:18: journal.cache (1GiB) must be smaller than journal.max_memory (1GiB)\n", ""},
  {"upstreams: {a: http://a}\nclaims: {listen: 127.0.0.1:1}",
   "once.yaml:2:18: claims.listen is 127.0.0.1:1: any client that can connect could end the work of others, so "
   "claims.tokens is required, even on loopback; without tokens use unix:/path/to.sock\n", ""},
  {"upstreams: {a: http://a}\nclaims: {listen: 'unix:/x'}", "", ""},
  {"upstreams: {a: http://a}\nclaims: {listen: 127.0.0.1:1, tokens: {acme: /x}}", "", ""},
  {"upstreams: {a: http://a}\nadmin: localhost:1\nclaims: {listen: localhost:1, tokens: {acme: /x}}",
   "once.yaml:3:18: claims.listen is localhost:1, which is already used by another listener\n", ""},
  {"upstreams: {a: http://a}\nstore: redis://h\ndefaults: {lease: 9s}", "", ""},
  {"upstreams: {a: http://a}\nstore: redis://h\ndefaults: {lease: 8s}", "",
   "once.yaml:3:19: lease (8s) should be longer than one store call may take (8s: server.connect_timeout plus "
   "server.timeout, with replicas a fifth more), or requests get 503 while the store is slow\n"},
  {"upstreams: {a: http://a}\nstore: redis://h\nredis: {wait_replicas: 1}\ndefaults: {lease: 9s}", "",
   "once.yaml:4:19: lease (9s) should be longer than one store call may take (9s: server.connect_timeout plus "
   "server.timeout, with replicas a fifth more), or requests get 503 while the store is slow\n"},
  {"upstreams: {a: http://a}\nstore: memory\ndefaults: {lease: 1s}", "", ""},
  {"upstreams: {a: http://a}\ntimeouts: {drain: 60s}", "", ""},
  {"upstreams: {a: http://a}\ntimeouts: {drain: 59s}", "",
   "once.yaml:2:19: timeouts.drain (59s) is shorter than timeouts.response (1m) of the route for /**: a restart cuts "
   "off running requests, and their outcomes are unknown\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, timeouts: {response: 71s}}, {path: /y, timeouts: {response: 2m}}, {path: /**}]", "",
   "timeouts.drain (70s) is shorter than timeouts.response (2m) of the route for /y: a restart cuts off running "
   "requests, and their outcomes are unknown\n"},
  {"upstreams: {a: http://a}\ndefaults: {on_unknown: takeover, takeover_after: 60s}", "", ""},
  {"upstreams: {a: http://a}\ndefaults: {on_unknown: takeover, takeover_after: 59s}", "",
   "once.yaml:2:50: takeover_after (59s) is shorter than timeouts.response (1m): a retry may execute while the "
   "backend is still working on the previous attempt\n"},
  {"upstreams: {a: http://a}\ndefaults: {on_unknown: hold, takeover_after: 59s}", "",
   "once.yaml:2:46: takeover_after has no effect without on_unknown: takeover\n"},
  {"upstreams: {a: http://a}\nenvironment: production\nadmin: off\nstore: memory\ndefaults: {caller_missing: reject}", "", "once.yaml:4:8: store: memory: loses every record when the process ends\n"},
  // What cannot be meant.
  {"upstreams: {a: http://a}\nroutes: [{path: /x, record: {refusals: [409, 204]}}]",
   "once.yaml:2:40: record.refusals: a 2xx means that the work was done; its key would be free, and a retry would do it again\n", ""},
  {"upstreams: {a: http://a}\ndefaults: {record: {refusals: 2xx}}\nroutes: [{path: /x}, {path: /y}]",
   "once.yaml:2:31: record.refusals: a 2xx means that the work was done; its key would be free, and a retry would do it again\n", ""},
  {"upstreams: {a: http://a}\ndefaults: {max_request_body: 2MiB, max_large_request: 1MiB}",
   "once.yaml:2:55: max_large_request (1MiB) must be 0 or at least max_request_body (2MiB)\n", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, max_large_request: 0}, {path: /y, max_large_request: 8MiB}]", "", ""},
  {"upstreams: {a: http://a}\nlimits: {max_spool: 512MiB}\nroutes: [{path: /x, max_large_request: 0}, {path: /y}, {path: /z, max_large_request: 512MiB}]", "",
   "once.yaml:2:21: limits.max_spool (512MiB) is smaller than max_large_request (1GiB) of the route for /y: bodies between the two get "
   "503, however often they are sent\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, max_large_request: 5GiB}]", "",
   "once.yaml:2:40: limits.max_spool (4GiB) is smaller than max_large_request (5GiB) of the route for /x: bodies between the two get "
   "503, however often they are sent\n"},
  {"upstreams: {a: http://a}\njournal: {max_disk: 256MiB}\nroutes: [{path: /x, record: {max_body: 256MiB}}, {path: /y, record: {max_body: 512MiB}}]", "",
   "once.yaml:3:80: record.max_body (512MiB) is larger than journal.max_disk (256MiB): responses that do not fit are recorded without "
   "their body\n"},
  {"upstreams: {a: http://a}\njournal: {max_disk: 256MiB}\nroutes: [{path: /x, record: {max_stream: 512MiB}}]", "",
   "once.yaml:3:42: record.max_stream (512MiB) is larger than journal.max_disk (256MiB): responses that do not fit are recorded without "
   "their body\n"},
  {"upstreams: {a: http://a}\nstore: 'memory:'\nmemory: {max_bytes: 96MiB}\nroutes: [{path: /x, record: {max_stream: 128MiB}}, "
   "{path: /y, record: {max_body: 33MiB, max_stream: 32MiB}}, {path: /z, record: {max_body: 32MiB}}]", "",
   "once.yaml:4:42: record.max_stream (128MiB) is larger than a third of memory.max_bytes (32MiB): responses that do not fit are recorded without "
   "their body\n"
   "once.yaml:4:82: record.max_body (33MiB) is larger than a third of memory.max_bytes (32MiB): responses that do not fit are recorded without "
   "their body\n"},
  {"upstreams: {a: http://a}\nstore: 'memory:'\nmemory: {max_bytes: 2MiB}\nroutes: [{path: /x, record: {max_body: 1MiB, max_stream: 0}}]", "", ""},
  {"upstreams: {a: http://a}\nstore: 'memory:'\nmemory: {max_bytes: 1MiB}\nroutes: [{path: /x, record: {max_body: 1MiB, max_stream: 0}}]", "",
   "once.yaml:4:40: record.max_body (1MiB) is larger than half of memory.max_bytes (512KiB): responses that do not fit are recorded without "
   "their body\n"},
  {"upstreams: {a: http://a}\nstore: redis://h\njournal: {max_disk: 256MiB}\ndefaults: {record: {max_body: 512MiB}}", "", ""},
  {"upstreams: {a: http://a}\ndefaults: {key: {header: content-type}}", "once.yaml:2:26: key.header: content-type already has a meaning in HTTP and cannot carry keys\n", ""},
  {"upstreams: {a: http://a}\ndefaults: {key: {header: Transfer-Encoding}}", "once.yaml:2:26: key.header: Transfer-Encoding already has a meaning in HTTP and cannot carry keys\n", ""},
  {"upstreams: {a: http://a}\ndefaults: {key: {header: Authorization}}", "once.yaml:2:26: key.header: Authorization already has a meaning in HTTP and cannot carry keys\n", ""},
  {"upstreams: {a: http://a}\ndefaults: {key: {header: Host}}", "once.yaml:2:26: key.header: Host already has a meaning in HTTP and cannot carry keys\n", ""},
  {"upstreams: {a: http://a}\ndefaults: {key: {header: X_Forwarded_For}}", "once.yaml:2:26: key.header: X_Forwarded_For already has a meaning in HTTP and cannot carry keys\n", ""},
  {"upstreams: {a: http://a}\ndefaults: {key: {header: X-Request-Token}}", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, host: a..com}]", "once.yaml:2:27: host: a..com is neither a host name (labels of 1 to 63 characters, 253 in total) nor an IPv6 address\n", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, host: ['[:::]', a_b.example., '*.example', '[::1]']}]", "once.yaml:2:27: host: [:::] is neither a host name (labels of 1 to 63 characters, 253 in total) nor an IPv6 address\n", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, host: a.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}]", "once.yaml:2:27: host: a.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa is neither a host name (labels of 1 to 63 characters, 253 in total) nor an IPv6 address\n", ""},
  // What does nothing.
  {"upstreams:\n  a: {servers: http://a, eject: {failures: 1}, retry: {safe: lost}}", "",
   "once.yaml:2:44: upstreams.a.eject.failures has no effect: the upstream has one server\n"
   "once.yaml:2:62: upstreams.a.retry.safe has no effect: the upstream has one server\n"},
  {"upstreams: {a: http://a}\nproxy_protocol: {listen: yes, tls: yes, from: 10.0.0.1}", "", "once.yaml:2:36: proxy_protocol.tls has no effect without tls.listen\n"},
  {"upstreams: {a: http://a}\ntls: {client_ca: /x}", "", "once.yaml:2:18: tls.client_ca has no effect without tls.listen: clients are not asked for a certificate\n"},
  {"upstreams: {a: http://a}\nlog: {access_file: /x}", "", "once.yaml:2:20: log.access_file has no effect without log.access: on\n"},
  {"upstreams: {a: http://a}\nredis: {wait_replicas: 1}", "", "once.yaml:2:24: redis.wait_replicas has no effect: the store is not Redis\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, on_unknown: hold, takeover_after: 2m}, {path: /y, on_unknown: takeover}]", "",
   "once.yaml:2:55: takeover_after has no effect without on_unknown: takeover\n"},
  {"upstreams: {a: http://a}\ndefaults: {takeover_after: 2m}\nroutes: [{path: /x, on_unknown: hold}, {path: /y, on_unknown: takeover}]", "", ""},
  {"upstreams: {a: http://a}\nroutes: [{path: /x, record: {stream: off, max_stream: 2MiB}}, {path: /y, record: {max_stream: 2MiB}}]", "",
   "once.yaml:2:55: record.max_stream has no effect with record.stream: off; record.max_body applies to every response\n"},
  {"upstreams: {a: http://a}\ndefaults: {record: {max_stream: 2MiB}}\nroutes: [{path: /x, record: {stream: off}}, {path: /y}]", "", ""},
  {"upstreams: {a: http://a}\ndefaults: {record: {max_stream: 2MiB, stream: off}}", "",
   "once.yaml:2:33: record.max_stream has no effect with record.stream: off; record.max_body applies to every response\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /v1/**, strip_prefix: /api}]", "",
   "once.yaml:2:39: strip_prefix (/api) has no effect: no path of the route for /v1/** begins with it\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: /api, strip_prefix: /api/v1}]", "",
   "once.yaml:2:37: strip_prefix (/api/v1) has no effect: no path of the route for /api begins with it\n"},
  {"upstreams: {a: http://a}\nroutes: [{path: '/{tenant}/v1/*', strip_prefix: /api/v1}, {path: /ap%69/**, strip_prefix: /api}, {path: /**, strip_prefix: /a}]", "", ""},
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
  const std::string text = "caller_missing is not set: set reject, or anonymous if keyed requests without ";
  const std::string rest = " may share one caller and get each other's responses";
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
            "once.yaml:4:5: " + text + authorization + "\nonce.yaml:5:24: " + text + "header:X-Api-Key" + rest + "\n|");
  EXPECT_EQ(checked(two), "|once.yaml:3:5: " + text + authorization + " (and for 1 more route)\n");
  // Nothing to share, or always there.
  EXPECT_EQ(
      checked(
          "environment: production\nroutes: [{path: /a, caller: client-ip}, {path: /b, scope: path, caller: none}]"),
      "|");
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
            "once.yaml:3:46: claims.tokens.acme: cannot read the secret in /nowhere/acme: No such file or directory\n"
            "once.yaml:3:68: claims.tokens.other: cannot read the secret in /nowhere/other: No such file or directory\n"
            "once.yaml:5:13: jwt.keys: cannot read /nowhere/keys.json: No such file or directory\n"
            "once.yaml:4:20: encryption.keys: cannot read the secret in /nowhere/new: No such file or directory\n"
            "once.yaml:4:20: encryption.keys: cannot read the secret in /nowhere/old: No such file or directory\n");
  EXPECT_EQ(lines(check_secrets(config, nothing_set).errors),
            "once.yaml:2:14: admin_token: cannot read the secret in /nowhere/admin: No such file or directory\n");
}

TEST(ConfigCheck, the_folder_for_large_requests_must_be_one_that_can_be_written) {
  const auto found = [](std::string_view yaml, const Environ& environ) {
    Config config = parsed(yaml);
    check(config);
    const Checked checked = check_spool(config, environ);
    return lines(checked.errors) + lines(checked.warnings) + config.spool_folder;
  };
  const auto tmpdir = [](std::string_view name) {
    return name == "TMPDIR" ? std::optional<std::string>("/nowhere") : std::nullopt;
  };
  EXPECT_EQ(found("limits: {spool_directory: /nowhere}", nothing_set),
            "once.yaml:1:27: limits.spool_directory: /nowhere: No such file or directory\n/nowhere");
  EXPECT_EQ(found("limits: {spool_directory: /proc}", nothing_set),
            "once.yaml:1:27: limits.spool_directory: /proc: Read-only file system\n/proc");
  EXPECT_EQ(found("limits: {spool_directory: /dev/null}", nothing_set),
            "once.yaml:1:27: limits.spool_directory: /dev/null: Not a directory\n/dev/null");
  EXPECT_EQ(found("limits: {spool_directory: /nowhere}\ndefaults: {max_large_request: 0}", nothing_set), "/nowhere");
  EXPECT_EQ(found("limits: {spool_directory: /tmp}", tmpdir), "/tmp");
  EXPECT_EQ(found("defaults: {max_large_request: 0}", nothing_set), "/var/tmp");
  EXPECT_EQ(found("defaults: {}", tmpdir),
            "/nowhere: No such file or directory: keyed requests larger than max_request_body get 503; set "
            "limits.spool_directory to a folder that can be written, or max_large_request to 0\n/nowhere");
}

std::string errors_of_files(std::string_view yaml) {
  Config config = parsed(yaml);
  Checked found = read_files(config);
  for (const ConfigError& error : check_secrets(config, nothing_set).errors) found.errors.push_back(error);
  return lines(found.errors);
}

TEST(ConfigCheck, urls_that_no_store_could_be_opened_with_are_refused_at_their_place) {
  const std::pair<const char*, const char*> urls[] = {
      {"redis://h?clustr=1", R"(unknown option "clustr" in the Redis URL)"},
      {"redis://h/abc", "the database in the Redis URL must be a number"},
      {"redis://h?cluster=yes", "option cluster of the Redis URL must be 0 or 1"},
      {"redis://h,h2?sentinel=", "option sentinel of the Redis URL must be the master's name"},
      {"rediss://h?ca=/nowhere", "option ca of the store's URL: /nowhere: No such file or directory"},
      {"rediss://h?cert=/nowhere&key=/nowhere", "option cert of the store's URL: /nowhere: No such file"},
      {"mysql://h", "the store's URL names no database"},
      {"mysql://h/db?ssl-mod=x", R"(unknown option "ssl-mod")"},
      {"mysql://h/db?ssl-mode=wrong", "ssl-mode must be disabled, required or verify-identity"},
      {"mysql://h/db?ssl-ca=/nowhere", "option ssl-ca of the store's URL: /nowhere: No such file or directory"},
      {"postgres://h/db?sslmod=require", R"(unknown option "sslmod")"},
      {"postgres://h/db?sslmode=wrong", "option sslmode of the store's URL must be one of disable, allow, "},
      {"postgres://h/db?connect_timeout=soon", "option connect_timeout of the store's URL must be a number"},
      {"postgres://h/db?sslrootcert=/nowhere", "option sslrootcert of the store's URL: /nowhere: No such file"},
      {"postgres://h/db?a3!secret=1", "an unknown option in the store's URL"},
  };
  for (const auto& [url, error] : urls) {
    const std::string found = errors_of_files("secret_file: /nowhere\nstore: '" + std::string(url) + "'");
    EXPECT_TRUE(found.starts_with("once.yaml:2:8: store: ")) << url << ": " << found;
    EXPECT_TRUE(found.contains(error)) << url << ": " << found;
  }
  for (const char* url :
       {"redis://u:p@h:1,h2?sentinel=x", "rediss://h?insecure=1", "mysql://u:p@h/db?ssl-mode=required",
        "postgres://u:p@h,h2:1/db?sslmode=verify-full&sslrootcert=system&target_session_attrs=primary&options=-csome",
        "postgresql:///db?host=/run/postgresql", "memory:"}) {
    Config config = parsed("store: '" + std::string(url) + "'");
    EXPECT_EQ(lines(read_files(config).errors), "") << url;
  }
}

TEST(ConfigCheck, folders_and_logs_that_cannot_be_written_are_told_and_none_is_made) {
  EXPECT_EQ(errors_of_files("store: journal:/proc/nope"),
            "once.yaml:1:8: store: the journal cannot be in /proc/nope: /proc: Read-only file system\n");
  EXPECT_EQ(errors_of_files("store: 'memory:'\ndata_dir: /proc/x/y"),
            "once.yaml:2:11: data_dir: the secret cannot be written there: /proc: Read-only file system\n");
  EXPECT_EQ(errors_of_files("data_dir: /dev/null/x"),
            "once.yaml:1:11: store: the journal cannot be in /dev/null/x/journal: /dev/null: Not a directory\n"
            "once.yaml:1:11: data_dir: the secret cannot be written there: /dev/null: Not a directory\n");
  EXPECT_EQ(errors_of_files("store: 'memory:'\naudit_log: /nowhere/audit.log"),
            "once.yaml:2:12: audit_log: /nowhere/audit.log: No such file or directory\n");
  EXPECT_EQ(errors_of_files("store: 'memory:'\naudit_log: /dev/null"),
            "once.yaml:2:12: audit_log: /dev/null is not a regular file\n");
  EXPECT_EQ(errors_of_files("store: 'memory:'\nadmin: off\naudit_log: /nowhere/audit.log"), "");
  EXPECT_EQ(errors_of_files("store: 'memory:'\nlog: {access: on, access_file: /nowhere/access.log}"),
            "once.yaml:2:32: log.access_file: /nowhere/access.log: No such file or directory\n");
  EXPECT_EQ(errors_of_files("store: 'memory:'\naudit_log: ./one\nlog: {access: on, access_file: one}"),
            "once.yaml:2:12: audit_log and log.access_file are both ./one\n");
  EXPECT_EQ(errors_of_files("store: journal:./not/there\naudit_log: one\nlog: {access: on, access_file: two}"), "");
  EXPECT_FALSE(std::filesystem::exists("one") || std::filesystem::exists("not"));
}

TEST(ConfigCheck, one_mistake_hides_no_other) {
  const std::string_view text =
      "lissten: 127.0.0.1:1\n"
      "admin: 127.0.0.1:8080\n"
      "admin_token: file:/nowhere/admin\n"
      "tls: {listen: soon, certificates: /nowhere}\n"
      "upgrades: h2c\n"
      "defaults: {ttl: 10s}\n"
      "routes:\n"
      "  - {path: /x, lease: 1m, upstream: a}\n"
      "  - {path: /y, lease: never}\n";
  EXPECT_EQ(
      lines(all_mistakes(parse_all(text, "once.yaml"), nothing_set)),
      "once.yaml:1:1: unknown setting \"lissten\"; did you mean \"listen\"?\n"
      "once.yaml:2:8: listen and admin are both 127.0.0.1:8080\n"
      "once.yaml:3:14: admin_token: cannot read the secret in /nowhere/admin: No such file or directory\n"
      "once.yaml:4:15: tls.listen: expected an address such as 127.0.0.1:8080 or [::1]:8080, or off, got \"soon\"\n"
      "once.yaml:5:11: upgrades: h2c is not allowed: its requests would bypass Once\n"
      "once.yaml:8:23: lease (1m) must be shorter than ttl (10s)\n"
      "once.yaml:9:23: lease: expected a duration such as 24h, got \"never\"\n");
  EXPECT_EQ(lines(all_mistakes(parse_all("upstreams: {a: nonsense}", "once.yaml"), nothing_set)),
            "once.yaml:1:16: upstreams.a: expected a URL such as http://127.0.0.1:9000, got \"nonsense\"\n")
      << "that there is no backend follows from it";
  EXPECT_EQ(lines(all_mistakes(parse_all("listen: 'off\n", "once.yaml"), nothing_set)),
            "once.yaml:1:9: not valid YAML: a quoted string begins here, and its closing quote is missing\n");
}

TEST(ConfigCheck, that_the_secret_is_missing_is_told_with_the_rest) {
  Config config = parsed(
      "upstreams: {a: http://a}\nenvironment: production\nadmin_token: file:/nowhere/admin\ndefaults: {caller_missing: "
      "reject}\n");
  SystemRandom random;
  const auto prepared = prepare(config, nothing_set, random);
  ASSERT_FALSE(prepared.has_value());
  ASSERT_EQ(prepared.error().size(), 2U) << lines(prepared.error());
  EXPECT_TRUE(prepared.error()[1].text.contains("ONCE_SECRET")) << lines(prepared.error());
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
    const auto prepared = prepare(config, nothing_set, random);
    ASSERT_FALSE(prepared.has_value()) << text;
    EXPECT_EQ(lines(told.errors), lines(prepared.error())) << text;
  }
}

TEST(ConfigCheck, a_variable_that_is_not_set_or_too_short_is_told) {
  Config config = parsed("upstreams: {a: http://a}\nadmin_token: env:TOKEN\n");
  const Checked checked = check_secrets(config, nothing_set);
  EXPECT_EQ(lines(checked.errors), "once.yaml:2:14: admin_token: the environment variable TOKEN is not set\n");
  const Checked shorter = check_secrets(config, [](std::string_view name) -> std::optional<std::string> {
    return name == "TOKEN" ? std::optional<std::string>("short") : std::nullopt;
  });
  EXPECT_EQ(
      lines(shorter.errors),
      "once.yaml:2:14: admin_token: TOKEN has 5 bytes, 16 to 4096 are needed; make one with: openssl rand -hex 32\n");
}

}  // namespace once::config::prepare_test
