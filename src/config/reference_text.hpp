// The texts of the reference pages besides the settings: introductions, rules and longer explanations.
#pragma once

#include <string_view>

#include "base/layers.hpp"

namespace once::config::reference_text {

inline constexpr std::string_view notice =
    "<!-- Made from the settings tables in src/config; do not edit. "
    "`ONCE_UPDATE_DOCS=1 ./test ConfigReference` makes it. -->";

inline constexpr std::string_view index_head = R"(
Once needs no configuration file: `once serve --upstream http://127.0.0.1:9000` runs with the defaults. To use a file, pass
`--config once.yaml`:

```yaml
listen: 0.0.0.0:8080
environment: production
secret_file: /etc/once/secret
admin_token: file:/etc/once/admin-token
upstreams:
  payments: http://127.0.0.1:9000
defaults:
  ttl: 24h
  caller_missing: reject
routes:
  - path: /v1/charges/**
    methods: [POST]
    dialect: stripe
    key: {required: yes}
  - path: /**
```

- `once check once.yaml` reports every mistake in a file, with line and column. A mistake in a flag, or about a setting that is missing,
  has no position. `once check` and `once serve` exit with code 2 if there is a mistake.
- Mistakes include unknown settings, unknown options in the store's URL, and files and folders that cannot be read or written.
- `once config` prints a file with every setting, its default and its description.
- [A JSON schema](../once.schema.json) lets editors check and complete the file.

## The first settings

Most people need no others. [Choosing settings](../../guides/choosing-settings.md) helps to decide.
)";

inline constexpr std::string_view index_rules = R"(
## How the file is read

- A setting such as `key.header` is written `key: {header: X}`.
- `yes`, `on` and `true` mean the same, and so do `no`, `off` and `false`: `log: {access: true}`, `admin: false`.
- Durations are a number and `ms`, `s`, `m`, `h` or `d`. Sizes are bytes, or a number and `KB`, `MB`, `GB` (thousands) or `KiB`, `MiB`,
  `GiB`, `TiB` (1024).
- Settings of the process are at the top of the file. Settings of `defaults` apply to all routes, and a route may have them as well.
- Values are applied in this order, and later ones win: the built-in defaults, the dialect of `defaults`, the settings of `defaults`, the
  dialect of the route, the settings of the route. The order of lines inside a section does not matter.
- A dialect changes only what is in [its table](dialects.md).
- Flags override the file: `--listen`, `--admin`, `--upstream`, `--store`, `--threads`, and `--set name=value` for any setting of the process
  (`--set log.level=debug`), of an upstream (`--set upstreams.default.queue=10`) and of the defaults (`--set defaults.ttl=1h`).
- A file may [include others](files.md#several-files), such as `conf.d/*.yaml`.
- `${NAME}` in a value or in a flag is replaced by [an environment variable](files.md#environment-variables).

## Reload

A [reload](../../operate/reload.md) applies routes, defaults, and the settings of the process that do not say "A change needs a restart."
)";

inline constexpr std::string_view files = R"(
Split the configuration into several files, and keep passwords out of it.

## Several files

`include` reads other files as part of this one, so that each team or tool can have its own file:

```yaml
include: conf.d/*.yaml
upstreams: {default: "http://127.0.0.1:9000"}
defaults: {caller_missing: reject}
routes:
  - path: /**
```

- A pattern lists files in the order of their names, without hidden ones. It may match no file, but its folder must exist. A path without
  `*`, `?` and `[` must exist. Both are relative to the folder of the including file.
- An included file may contain any setting except `include`. `defaults` apply to the routes of all files.
- A setting that appears in two files is a mistake, reported with both positions. Groups such as `limits`, `upstreams` and `defaults` may
  be spread over files; a single upstream may not.
- Routes of included files come before those of the main file, in the order of the files. So a route for everything in the main file
  stays last. The default upstream is the one named `default`, or else the first of the main file.
- `once check`, `once serve` and a reload read all files. For `once check --against` keep a copy of the whole folder.

## Environment variables

`${NAME}` anywhere in a value is replaced by the environment variable of that name, in files and in flags:

```yaml
store: postgres://once:${PGPASSWORD}@db.internal/once
upstreams:
  payments: http://${BACKEND_HOST}:9000
defaults: {caller_missing: reject}
```

- A variable that is not set is a mistake, reported with its line. An empty variable is an empty string. There are no defaults such as
  `${NAME:-x}`.
- `$${` is a literal `${`. Any other `$` is literal, too.
- Variables are replaced after the YAML is parsed: a variable is always a value, never a name, a list or another setting. In a URL a
  password must be percent-encoded, as in the file itself.
- Error messages do not show a value that contains a variable, because it may be a secret. They show `${NAME}` in place of the contents
  of any variable of 4 bytes or more. Passwords of stores are never shown.
- A reload and a successor (`SIGUSR2`) use the environment that the process was started with. To change a variable, restart. Keep secrets
  that change in files: `secret_file`, `admin_token: file:PATH`, `jwt.keys`.
- `once check` needs the same variables as `once serve`.
)";

inline constexpr std::string_view process = R"(
Set where Once listens, who may use the admin interface, and where it keeps its own files.

## The secret

Operation ids are made with a secret, so that keys cannot be read from the store. Once reads it from the environment variable
`ONCE_SECRET`, or else from `secret_file`. It has at least 16 bytes; a line end at its end is ignored. `openssl rand -hex 32` makes one.

The secret is required with `environment: production`, or with a store that several gateways share. Otherwise Once generates one and
keeps it in `data_dir`.

## Readiness checks

`/readyz` answers 200 if every check in `readyz.checks` passes, otherwise 503:

- `store`: the store answers.
- `descriptors`: the process did not run out of file descriptors within the last 5 seconds.
- `room`: the store did not refuse a new key because it was full within the last 5 seconds.
- `upstreams`: a server of any upstream is up. A server without health checks is down for twice `health.interval` after it could
  not be reached.

Use `room` and `upstreams` only if your load balancer has other gateways to choose from. While a check fails, it sends no requests here,
not even those that could be served.
)";

inline constexpr std::string_view routes = R"(
Give paths, hosts and methods rules of their own.

- Every item of `routes:` has a `path`. It may have any setting of `defaults` as well.
- The first route that matches `host` (if it has one), `path` and `methods` is used. A route for one host has no precedence over the
  others, so put it above the routes for all hosts.
- In a path `*` or `{name}` matches one segment, and `**` at the end matches any rest.
- Without routes there is one route for everything, with the defaults.
- With routes, requests that match none of them go to the default upstream unchanged, and their keys have no effect.
)";

inline constexpr std::string_view recording = R"(
Decide which responses are recorded and replayed, and how large they may be. [Streams](../../guides/streams.md) explains the settings of
streams.

## Responses without a length

A response with neither `Content-Length` nor chunks ends where its connection ends, so a truncated one looks like a shorter one.
`record.unframed: whole` records it only if it is provably complete: TLS reported that the backend ended it, or it is JSON that parses
and has no `Content-Encoding`.
)";

inline constexpr std::string_view upstreams = R"(
Say where your backend is, and how to reach it. [Upstreams](../../guides/upstreams.md) explains how the settings work together.

Every entry of `upstreams:` is a URL, or a map of the settings below with at least `servers`. On the command line:
`--set upstreams.NAME.queue=10`.

```yaml
upstreams:
  payments:
    servers: [http://10.0.0.1:9000, http://10.0.0.2:9000]
    max_connections: 200
    health: {path: /healthz}
defaults: {caller_missing: reject}
```
)";

inline constexpr std::string_view dialects = R"(
Follow the conventions of an API family with one setting: `dialect`, in `defaults` or in a route.

- The settings below can still be changed one by one. The other rows are decided by the dialect alone.
- What Stripe's client libraries expect is an error object (type, code, message) in problem documents, `Stripe-Should-Retry` next to
  `X-Should-Retry`, and `Request-Id` next to `X-Request-Id`.
)";

}  // namespace once::config::reference_text
