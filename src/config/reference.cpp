#include "config/reference.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/text.hpp"
#include "config/reload.hpp"
#include "config/settings.hpp"
#include "config/yaml.hpp"
#include "core/dialect.hpp"

namespace once::config {

namespace {

constexpr std::size_t comment_width = 110;

constexpr std::string_view markdown_head = R"(# Configuration

<!-- Made from the settings tables in src/config; do not edit. `once config --markdown` prints it. -->

Once needs no configuration file: `once serve --upstream http://127.0.0.1:9000` runs with the defaults below. To use a file, pass
`--config once.yaml`.

- `once config` prints a file with every setting, its default and its description.
- `once check --config once.yaml` reports every mistake in a file, with line and column. A mistake in a flag, or about a setting
  that is missing, has no position. `once check` and `once serve` exit with code 2 if there is a mistake.
- Mistakes include unknown settings, unknown options in the store's URL, and files and folders that cannot be read or written.

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

- A setting such as `key.header` is written `key: {header: X}`.
- Values are applied in this order, and later ones win: the built-in defaults, the dialect of `defaults`, the settings of `defaults`,
  the dialect of the route, the settings of the route. The order of lines inside a section does not matter.
- A dialect changes only what is in [its table](#dialects).
- Flags override the file: `--listen`, `--admin`, `--upstream`, `--store`, `--threads`, and `--set name=value` for any setting of the
  process (`--set log.level=debug`), of an upstream (`--set upstreams.default.queue=10`) and of the defaults
  (`--set defaults.ttl=1h`).
- A file may [include others](#several-files), such as `conf.d/*.yaml`.
- `${NAME}` in a value or in a flag is replaced by [an environment variable](#environment-variables).
- `yes`, `on` and `true` mean the same, and so do `no`, `off` and `false`: `log: {access: true}`, `admin: false`.
- Durations are a number and `ms`, `s`, `m`, `h` or `d`. Sizes are bytes, or a number and `KB`, `MB`, `GB` (thousands) or `KiB`,
  `MiB`, `GiB`, `TiB` (1024).
- The first route that matches `host` (if it has one), `path` and `methods` is used. A route for one host has no precedence over the
  others, so put it above the routes for all hosts.
- In a path `*` or `{name}` matches one segment, and `**` at the end matches any rest.
- Without routes there is one route for everything, with the defaults. With routes, requests that match none of them go to the default
  upstream unchanged, and their keys have no effect.
)";

constexpr std::string_view secret_section = R"(
## The secret

Operation ids are made with a secret, so that keys cannot be read from the store. Once reads it from the environment variable
`ONCE_SECRET`, or else from `secret_file`. It has at least 16 bytes; a line end at its end is ignored. `openssl rand -hex 32` makes one.

The secret is required with `environment: production`, or with a store that several gateways share. Otherwise Once generates one and keeps
it in `data_dir`.
)";

constexpr std::string_view variables_section = R"(
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
- Error messages do not show a value that contains a variable, because it may be a secret. They show `${NAME}` in place of the contents of
  any variable of 4 bytes or more. Passwords of stores are never shown.
- A reload and a successor (`SIGUSR2`) use the environment that the process was started with. To change a variable, restart. Keep secrets
  that change in files: `secret_file`, `admin_token: file:PATH`, `jwt.keys`.
- `once check` needs the same variables as `once serve`.
)";

constexpr std::string_view include_section = R"(
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
- A setting that appears in two files is a mistake, reported with both positions. Groups such as `limits`, `upstreams` and `defaults` may be
  spread over files; a single upstream may not.
- Routes of included files come before those of the main file, in the order of the files. So a route for everything in the main file stays
  last. The default upstream is the one named `default`, or else the first of the main file.
- `once check`, `once serve` and a reload read all files. For `once check --against` keep a copy of the whole folder.
)";

constexpr std::string_view ready_section = R"(
## Readiness checks

`/readyz` answers 200 if every check in `readyz.checks` passes, otherwise 503:

- `store`: the store answers.
- `descriptors`: the process did not run out of file descriptors within the last 5 seconds.
- `room`: the store did not refuse a new key because it was full within the last 5 seconds.
- `upstreams`: a server of any upstream is up. A server without health checks is down for twice `health.interval` after it could not be
  reached.

Use `room` and `upstreams` only if your load balancer has other gateways to choose from. While a check fails, it sends no requests here, not
even those that could be served.
)";

constexpr std::string_view unframed_section = R"(
## Responses without a length

A response with neither `Content-Length` nor chunks ends where its connection ends, so a truncated one looks like a shorter one.
`record.unframed: whole` records it only if it is provably complete: TLS reported that the backend ended it, or it is JSON that parses and
has no `Content-Encoding`.
)";

constexpr std::string_view upstream_section = R"(
## An upstream

Every entry of `upstreams:` is a URL, or a map of these settings with at least `servers`. On the command line: `--set
upstreams.NAME.queue=10`. [Upstreams](upstreams.md) explains how they work together.

```yaml
upstreams:
  payments:
    servers: [http://10.0.0.1:9000, http://10.0.0.2:9000]
    max_connections: 200
    health: {path: /healthz}
defaults: {caller_missing: reject}
```
)";

template <class Target>
void table(std::string& out, const Settings<Target>& settings, const Target& defaults) {
  out += "\n| setting | default | expected | description |\n| --- | --- | --- | --- |\n";
  for (const Setting<Target>& setting : settings) {
    const std::string value = setting.shape == Shape::map ? "" : show_values(setting.shape, setting.get(defaults));
    const std::string range = setting.range.empty() ? "" : fmt::format(", {}", setting.range);
    fmt::format_to(std::back_inserter(out), "| `{}` | {} | {}{} | {} |\n", setting.name,
                   value.empty() ? "" : fmt::format("`{}`", value), setting.expected, range, setting.help);
  }
}

// What a dialect decides and no setting changes.
struct DialectPart {
  std::string_view name;
  std::string (*get)(const Policy&);
};

constexpr DialectPart dialect_parts[] = {
    {"longest key", [](const Policy& p) { return fmt::to_string(p.key.max_length); }},
    {"mismatch: status", [](const Policy& p) { return fmt::to_string(p.wording.mismatch_status); }},
    {"mismatch: code", [](const Policy& p) { return p.wording.mismatch_code; }},
    {"mismatch: type, after `errors_base`", [](const Policy& p) { return p.wording.mismatch_type; }},
    {"mismatch: title", [](const Policy& p) { return p.wording.mismatch_title; }},
    {"in flight: status", [](const Policy& p) { return fmt::to_string(p.wording.in_flight_status); }},
    {"in flight: code", [](const Policy& p) { return p.wording.in_flight_code; }},
    {"in flight: detail", [](const Policy& p) { return p.wording.in_flight_detail; }},
    {"header of a replay", [](const Policy& p) { return p.wording.replay_header; }},
    {"what Stripe's client libraries expect",
     [](const Policy& p) { return std::string(p.wording.error_object ? "yes" : "no"); }},
};

template <class Get>
void dialect_row(std::string& out, std::string_view name, const Get& get) {
  fmt::format_to(std::back_inserter(out), "| {} |", name);
  for (const std::string_view each : dialect_names()) {
    const std::optional<Policy> policy = dialect(each);
    ONCE_ASSERT(policy.has_value());
    fmt::format_to(std::back_inserter(out), " {} |", get(*policy));
  }
  out += '\n';
}

void dialect_table(std::string& out) {
  out += "\n| setting |";
  for (const std::string_view name : dialect_names()) fmt::format_to(std::back_inserter(out), " `{}` |", name);
  out += "\n| --- |";
  for (std::size_t i = 0; i < dialect_names().size(); ++i) out += " --- |";
  out += '\n';
  for (const Setting<Policy>* setting : dialect_settings()) {
    dialect_row(out, fmt::format("`{}`", setting->name),
                [setting](const Policy& policy) { return show_values(setting->shape, setting->get(policy)); });
  }
  for (const DialectPart& part : dialect_parts) dialect_row(out, part.name, part.get);
}

void comment(std::string& out, std::string_view indent, std::string_view text) {
  std::string line = fmt::format("{}#", indent);
  for (const std::string_view word : split(text, ' ')) {
    if (line.size() + 1 + word.size() > comment_width) {
      out += line + '\n';
      line = fmt::format("{}#", indent);
    }
    fmt::format_to(std::back_inserter(line), " {}", word);
  }
  out += line + '\n';
}

template <class Target>
std::string yaml_value(const Setting<Target>& setting, const Target& defaults) {
  if (setting.shape == Shape::map) return "{}";
  Values values = setting.get(defaults);
  for (std::string& value : values) value = yaml_scalar(value);
  return show_values(setting.shape, values);
}

// The tables keep the settings of a group together, so the first setting of a group opens it.
template <class Target>
void yaml_section(std::string& out, std::string indent, const Settings<Target>& settings, const Target& defaults) {
  std::vector<std::string_view> open;
  for (const Setting<Target>& setting : settings) {
    std::vector<std::string_view> groups = split(setting.name, '.');
    const std::string_view name = groups.back();
    groups.pop_back();
    const auto [group, unused] = std::ranges::mismatch(groups, open);
    std::string inner = indent + std::string(2 * static_cast<std::size_t>(group - groups.begin()), ' ');
    for (auto opened = group; opened != groups.end(); ++opened) {
      fmt::format_to(std::back_inserter(out), "{}{}:\n", inner, *opened);
      inner += "  ";
    }
    open = std::move(groups);
    comment(out, inner, setting.help);
    comment(out, inner,
            fmt::format("Expected: {}{}", setting.expected, setting.range.empty() ? "" : ", " + setting.range));
    fmt::format_to(std::back_inserter(out), "{}{}: {}\n", inner, name, yaml_value(setting, defaults));
  }
}

}  // namespace

std::string reference_markdown() {
  const Config config = builtin_config();
  std::string out(markdown_head);
  out += "\n## The process\n";
  table(out, process_settings(), config);
  out +=
      "\n## Reload\n\nA [reload](reload.md) applies routes, defaults and the settings below. Any other change needs a "
      "restart:\n";
  for (const Setting<Config>& setting : process_settings()) {
    if (reloads(setting.name)) fmt::format_to(std::back_inserter(out), "`{}` ", setting.name);
  }
  out.back() = '\n';
  out += ready_section;
  out += upstream_section;
  table(out, upstream_settings(), Upstream());
  out += "\n## A route\n\nEvery item of `routes:` has these settings, and may have any setting of the next section.\n";
  table(out, route_settings(), Route());
  out += "\n## Policy: in `defaults` and in routes\n";
  table(out, policy_settings(), config.defaults);
  out +=
      "\n## Dialects\n\nThe settings of each dialect, and below them what only the dialect decides. What Stripe's "
      "client libraries "
      "expect is an error object (type, code, message) in problem documents, Stripe-Should-Retry next to "
      "X-Should-Retry, and Request-Id next to X-Request-Id.\n";
  dialect_table(out);
  out += unframed_section;
  out += secret_section;
  out += variables_section;
  out += include_section;
  return out;
}

std::string reference_yaml() {
  const Config config = builtin_config();
  std::string out = "# Every setting of Once with its default. Leave out the settings you do not change.\n\n";
  yaml_section(out, "", process_settings(), config);
  out += "\n# An upstream is a URL, or a map of these settings with at least servers:\n";
  for (const Setting<Upstream>& setting : upstream_settings()) {
    comment(out, "", fmt::format("  {}: {} Expected: {}", setting.name, setting.help, setting.expected));
  }
  out += "\n# The defaults for every route.\ndefaults:\n";
  yaml_section(out, "  ", policy_settings(), config.defaults);
  out +=
      "\n# The first match wins. Without routes there is one for everything. A route may have any setting of defaults, "
      "and:\n";
  for (const Setting<Route>& setting : route_settings()) {
    comment(out, "", fmt::format("  {}: {} Expected: {}", setting.name, setting.help, setting.expected));
  }
  out += R"(# For example:
#   - path: /v1/charges/**
#     methods: [POST]
#     dialect: stripe
#     key: {required: yes}
routes: []
)";
  return out;
}

}  // namespace once::config
