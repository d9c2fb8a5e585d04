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

namespace once {

namespace {

constexpr std::size_t comment_width = 110;

constexpr std::string_view markdown_head = R"(# Configuration

<!-- Made from the settings tables in src/config; do not edit. `once config --markdown` prints it. -->

Once needs no configuration file: `once serve --upstream http://127.0.0.1:9000` runs with the defaults below. A file is
given with `--config once.yaml`. `once config` prints one with every setting, its default and what it is for; `once check
--config once.yaml` reports every mistake in one, each with the line and column of a setting that it is about; what a flag set,
or nobody, has none. Unknown settings are mistakes, and so are options of the store's URL that its driver does not know, and
files and folders that cannot be read or written. `once check` and `once serve` both end with exit code 2 when there is one.

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
- Later wins: what is built in, the dialect of `defaults`, the settings of `defaults`, the dialect of the route, the settings
  of the route. Inside a section the order of lines does not matter: the dialect always comes first.
- A dialect decides only the settings in its table at the end of this page; it leaves all others alone.
- Flags come after the file: `--listen`, `--admin`, `--upstream`, `--store`, `--threads`, and `--set name=value` for any setting
  of the process (`--set log.level=debug`), of an upstream (`--set upstreams.default.queue=10`) and of the defaults
  (`--set defaults.ttl=1h`).
- A file may [include others](#several-files), such as `conf.d/*.yaml`.
- `${NAME}` in a value, or behind a flag, stands for [an environment variable](#environment-variables).
- Where a setting takes `yes`, `on` or `true`, the other two mean the same, and likewise `no`, `off` and `false`: `log: {access:
  true}`, `admin: false`.
- Durations are a number and `ms`, `s`, `m`, `h` or `d`. Sizes are bytes, or a number and `KB`, `MB`, `GB` (thousands) or `KiB`,
  `MiB`, `GiB`, `TiB` (1024).
- The first route that matches is taken: its `host`, if it has one, its `path` and its `methods`. Hosts do not go before paths, so
  a route for one host stands above those for all of them. In a path `*` or `{name}` stands for one segment and `**`, at the end, for any rest.
  With no routes there is one for everything, with the defaults. With routes, what none of them matches goes
  to the default upstream untouched: keys do nothing there.
)";

constexpr std::string_view secret_section = R"(
## The secret

Operation ids are made with a secret, so that nobody who sees the store can tell a key. It is read from the environment
variable `ONCE_SECRET`, or else from `secret_file`; at least 16 bytes, a line end is not part of it. `openssl rand -hex 32`
makes one. With `environment: production` or a store that several gateways share, one must be given. Otherwise Once
makes one and keeps it in `data_dir`.
)";

constexpr std::string_view variables_section = R"(
## Environment variables

`${NAME}` anywhere in a value is replaced by the environment variable of that name, in files and behind flags:

```yaml
store: postgres://once:${PGPASSWORD}@db.internal/once
upstreams:
  payments: http://${BACKEND_HOST}:9000
defaults: {caller_missing: reject}
```

- A variable that is not set is a mistake, reported with its line. One that is set and empty is an empty text. There are no
  defaults such as `${NAME:-x}`.
- `$${` is the text `${`. Any other `$` stands for itself.
- Variables are replaced after the YAML is read: what they hold is a value, and never a name, a list or another setting. In a
  URL a password must be percent-encoded, as it would be in the file.
- A value that holds a variable is not shown when it is refused: it may be a secret. A message has `${NAME}` where it would show
  what a variable holds, if that is 4 bytes or longer. Passwords of stores are never shown.
- A reload replaces them by the environment that the process was started with, and so does its successor (`SIGUSR2`): to change
  one, restart. Secrets that change are better kept in files: `secret_file`, `admin_token: file:PATH`, `jwt.keys`.
- `once check` needs the same variables as `once serve`.
)";

constexpr std::string_view include_section = R"(
## Several files

`include` reads other files as though they were part of this one, so that each team or tool has a file of its own:

```yaml
include: conf.d/*.yaml
upstreams: {default: "http://127.0.0.1:9000"}
defaults: {caller_missing: reject}
routes:
  - path: /**
```

- A pattern names files in the order of their names, without hidden ones; it may match none, but its folder must be there. A path without `*`, `?` and `[`
  must be there. Both are relative to the folder of the file that includes them.
- An included file may have any setting but `include`. `defaults` hold for the routes of all files.
- What two files set is a mistake, and both places are named. Groups such as `limits`, `upstreams` and `defaults` may be
  spread over files, one upstream may not.
- Routes of included files come before those of the main file, in the order of the files: a route for everything in the
  main file stays the last. The default upstream is the one named `default`, or else the first of the main file.
- `once check`, `once serve` and a reload read all of them. For `once check --against` keep a copy of the whole folder.
)";

constexpr std::string_view upstream_section = R"(
## An upstream

Every entry of `upstreams:` is a URL, or a map of these with at least `servers`. On the command line: `--set
upstreams.NAME.queue=10`. What they mean together is told in [upstreams](upstreams.md).

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
  out += "\n| setting | default | expected | what it is for |\n| --- | --- | --- | --- |\n";
  for (const Setting<Target>& setting : settings) {
    const std::string value = setting.shape == Shape::map ? "" : show_values(setting.shape, setting.get(defaults));
    const std::string range = setting.range.empty() ? "" : fmt::format(", {}", setting.range);
    fmt::format_to(std::back_inserter(out), "| `{}` | {} | {}{} | {} |\n", setting.name,
                   value.empty() ? "" : fmt::format("`{}`", value), setting.expected, range, setting.help);
  }
}

void dialect_table(std::string& out) {
  out += "\n| setting |";
  for (const std::string_view name : dialect_names()) fmt::format_to(std::back_inserter(out), " `{}` |", name);
  out += "\n| --- |";
  for (std::size_t i = 0; i < dialect_names().size(); ++i) out += " --- |";
  out += '\n';
  for (const Setting<Policy>* setting : dialect_settings()) {
    fmt::format_to(std::back_inserter(out), "| `{}` |", setting->name);
    for (const std::string_view name : dialect_names()) {
      const std::optional<Policy> policy = dialect(name);
      ONCE_ASSERT(policy.has_value());
      fmt::format_to(std::back_inserter(out), " {} |", show_values(setting->shape, setting->get(*policy)));
    }
    out += '\n';
  }
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

// Settings of one group follow each other in the tables, so a group is opened when the first of it comes.
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
  out += "\n## Reload\n\nA [reload](reload.md) takes over routes, defaults and these; any other needs a restart:\n";
  for (const Setting<Config>& setting : process_settings()) {
    if (reloads(setting.name)) fmt::format_to(std::back_inserter(out), "`{}` ", setting.name);
  }
  out.back() = '\n';
  out += upstream_section;
  table(out, upstream_settings(), Upstream());
  out += "\n## A route\n\nEvery item of `routes:` has these, and may have any setting of the next section.\n";
  table(out, route_settings(), Route());
  out += "\n## Policy: in `defaults` and in routes\n";
  table(out, policy_settings(), config.defaults);
  out += "\n## Dialects\n\nWhat each dialect sets.\n";
  dialect_table(out);
  out += secret_section;
  out += variables_section;
  out += include_section;
  return out;
}

std::string reference_yaml() {
  const Config config = builtin_config();
  std::string out = "# Every setting of Once with its default. Leave out what you do not change.\n\n";
  yaml_section(out, "", process_settings(), config);
  out += "\n# An upstream is a URL or a map of these, with at least servers:\n";
  for (const Setting<Upstream>& setting : upstream_settings()) {
    comment(out, "", fmt::format("  {}: {} Expected: {}", setting.name, setting.help, setting.expected));
  }
  out += "\n# What holds for every route that does not say otherwise.\ndefaults:\n";
  yaml_section(out, "  ", policy_settings(), config.defaults);
  out +=
      "\n# First match wins; with none there is one for everything. A route may have any setting of defaults, and:\n";
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

}  // namespace once
