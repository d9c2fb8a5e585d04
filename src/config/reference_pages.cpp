// The pages in docs/reference/configuration: the topics, their settings, and the description of each setting.
#include <algorithm>
#include <array>
#include <iterator>
#include <ranges>
#include <span>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/text.hpp"
#include "config/reference.hpp"
#include "config/reference_text.hpp"
#include "config/reload.hpp"
#include "config/settings.hpp"
#include "core/dialect.hpp"

namespace once::config {

namespace {

struct Topic {
  std::string_view file;
  std::string_view title;
  std::string_view introduction;  // begins with what the reader wants to do
  std::string_view settings;      // names, and groups such as `log.`
};

constexpr std::size_t page_width = 130;
constexpr std::string_view upstream_page = "upstreams.md";
constexpr std::string_view route_page = "routes.md";
constexpr std::string_view dialect_page = "dialects.md";
// For settings that no topic lists.
constexpr std::string_view other_page = "process.md";

constexpr std::array topics = {
    Topic{"process.md", "The process", reference_text::process, ""},
    Topic{"files.md", "Files and variables", reference_text::files, "include"},
    Topic{"upstreams.md", "Upstreams", reference_text::upstreams, "upstreams upstream_tls. pool."},
    Topic{"routes.md", "Routes", reference_text::routes, "dialect mode"},
    Topic{"dialects.md", "Dialects", reference_text::dialects, ""},
    Topic{"keys.md", "Keys",
          "\nSay which requests have a key, what the key belongs to, and which requests count as the same.\n",
          "key. scope scope_headers life. fingerprint. ttl tombstone same_hosts"},
    Topic{"callers.md", "Callers",
          "\nSay who owns a key, and how Once can be sure. [Callers](../../guides/callers.md) explains each source.\n",
          "caller caller_missing jwt. trusted_proxies proxy_protocol."},
    Topic{"retries.md", "Retries",
          "\nDecide what a retry gets while the first request runs, and when its outcome is unknown.\n",
          "in_flight in_flight_wait on_unknown takeover_after lease store_down"},
    Topic{"recording.md", "Recording", reference_text::recording, "record. max_request_body max_large_request"},
    Topic{"stores.md", "Stores",
          "\nSay where records are kept. [Stores](../../operate/stores.md) helps to choose, size and run one.\n",
          "store memory. journal. server. redis. encryption. keys."},
    Topic{"limits.md", "Limits and timeouts",
          "\nLimit what a client, a caller or a slow backend can use up. [Limits](../../operate/limits.md) explains "
          "them.\n",
          "limits. timeouts."},
    Topic{"tls.md", "TLS", "\nServe clients over TLS. [TLS](../../guides/tls.md) explains the settings.\n", "tls."},
    Topic{"logs.md", "Logs",
          "\nChoose what is logged, and where. [Logging](../logging.md) lists every line and field.\n",
          "log. audit_log"},
    Topic{"claims.md", "The claims API",
          "\nServe claims for work that is not an HTTP request. [Claims](../../guides/claims.md) describes the API.\n",
          "claims."},
    Topic{"browsers.md", "Conditional requests and browsers",
          "\nAnswer `If-None-Match` and `If-Match` for a backend that does not "
          "([conditional requests](../../guides/conditional.md)), and let scripts of other origins call it "
          "([CORS](../../guides/cors.md)).\n",
          "conditional. cors."},
};

struct FirstSetting {
  std::string_view name;
  std::string_view decides;
};

constexpr std::array first_settings = {
    FirstSetting{"upstreams", "where your backend is"},
    FirstSetting{"listen", "where clients connect"},
    FirstSetting{"store", "where records are kept; a server if there are several gateways"},
    FirstSetting{"caller", "who owns a key"},
    FirstSetting{"caller_missing", "what a keyed request without a caller gets"},
    FirstSetting{"key.required", "whether a request without a key is refused"},
    FirstSetting{"key.methods", "the methods on which a key has an effect"},
    FirstSetting{"dialect", "the conventions: `ietf`, `stripe` and others"},
    FirstSetting{"ttl", "how long a retry gets the recorded response"},
    FirstSetting{"record.gateway_errors",
                 "what a 502, 503 or 504 means; `unknown` if a proxy between Once and your backend makes them"},
    FirstSetting{"on_unknown", "whether a request with an unknown outcome may run again"},
    FirstSetting{"timeouts.response", "how long your backend may take"},
    FirstSetting{"environment", "`production` insists on a secret and a token"},
    FirstSetting{"secret_file", "the secret that hides keys in the store"},
    FirstSetting{"admin_token", "who may use the admin interface"},
};

bool names(const Topic& topic, std::string_view setting) {
  return std::ranges::any_of(split(topic.settings, ' '), [&](std::string_view name) {
    return name.ends_with('.') ? setting.starts_with(name) : setting == name;
  });
}

std::string_view page_of(std::string_view setting) {
  const auto topic = std::ranges::find_if(topics, [&](const Topic& each) { return names(each, setting); });
  return topic == topics.end() ? other_page : topic->file;
}

// Links the section that a description names: "See several files."
std::string linked(std::string_view help) {
  struct Section {
    std::string_view words;
    std::string_view link;
  };
  constexpr std::array sections = {
      Section{"See several files.", "See [several files](files.md#several-files)."},
      Section{"See readiness checks.", "See [readiness checks](process.md#readiness-checks)."},
      Section{"See responses without a length.",
              "See [responses without a length](recording.md#responses-without-a-length)."},
  };
  std::string text(help);
  for (const Section& section : sections) {
    const std::size_t at = text.find(section.words);
    if (at != std::string::npos) text.replace(at, section.words.size(), section.link);
  }
  return text;
}

std::string wrapped(std::string_view text) {
  std::string out;
  std::size_t width = 0;
  for (const std::string_view word : split(text, ' ')) {
    const bool fits = width + 1 + word.size() <= page_width;
    if (!out.empty()) out += fits ? ' ' : '\n';
    width = (fits && !out.empty() ? width + 1 : 0) + word.size();
    out += word;
  }
  return out;
}

template <class Target>
std::string default_of(const Setting<Target>& setting, const Target& defaults) {
  return setting.shape == Shape::map ? "" : show_values(setting.shape, setting.get(defaults));
}

template <class Target>
void describe(std::string& out, const Setting<Target>& setting, const Target& defaults, std::string_view note) {
  const std::string value = default_of(setting, defaults);
  fmt::format_to(std::back_inserter(out), "\n### `{}`\n\n{}Expected: {}{}.{}\n\n{}\n", setting.name,
                 value.empty() ? "" : fmt::format("Default: `{}`. ", value), setting.expected,
                 setting.range.empty() ? "" : ", " + setting.range, note, wrapped(linked(setting.help)));
}

// The settings of a table that belong to a page, under a heading that says where in the file to write them.
template <class Target>
void section(std::string& out, std::string_view heading, const Settings<Target>& settings, const Target& defaults,
             std::string_view page) {
  std::string body;
  for (const Setting<Target>& setting : settings) {
    std::string_view file;
    std::string_view note;
    if constexpr (std::is_same_v<Target, Upstream>) {
      file = upstream_page;
    } else if constexpr (std::is_same_v<Target, Route>) {
      file = route_page;
    } else {
      file = page_of(setting.name);
    }
    if constexpr (std::is_same_v<Target, Config>) note = reloads(setting.name) ? "" : " A change needs a restart.";
    if (file == page) describe(body, setting, defaults, note);
  }
  if (!body.empty()) fmt::format_to(std::back_inserter(out), "\n## {}\n{}", heading, body);
}

// A property of a dialect that no setting changes.
struct DialectPart {
  std::string_view name;
  std::string (*get)(const Policy&);
};

constexpr std::array dialect_parts = {
    DialectPart{"longest key", [](const Policy& p) { return fmt::to_string(p.key.max_length); }},
    DialectPart{"mismatch: status", [](const Policy& p) { return fmt::to_string(p.wording.mismatch_status); }},
    DialectPart{"mismatch: code", [](const Policy& p) { return p.wording.mismatch_code; }},
    DialectPart{"mismatch: type, after `errors_base`", [](const Policy& p) { return p.wording.mismatch_type; }},
    DialectPart{"mismatch: title", [](const Policy& p) { return p.wording.mismatch_title; }},
    DialectPart{"in flight: status", [](const Policy& p) { return fmt::to_string(p.wording.in_flight_status); }},
    DialectPart{"in flight: code", [](const Policy& p) { return p.wording.in_flight_code; }},
    DialectPart{"in flight: detail", [](const Policy& p) { return p.wording.in_flight_detail; }},
    DialectPart{"header of a replay", [](const Policy& p) { return p.wording.replay_header; }},
    DialectPart{"what Stripe's client libraries expect",
                [](const Policy& p) { return std::string(p.wording.error_object ? "yes" : "no"); }},
};

using DialectRows = std::vector<std::pair<std::string, std::string>>;

DialectRows dialect_rows(std::string_view name) {
  const std::optional<Policy> policy = dialect(name);
  ONCE_ASSERT(policy.has_value());
  DialectRows rows;
  for (const Setting<Policy>* setting : dialect_settings()) {
    rows.emplace_back(fmt::format("`{}`", setting->name), show_values(setting->shape, setting->get(*policy)));
  }
  for (const DialectPart& part : dialect_parts) rows.emplace_back(part.name, part.get(*policy));
  return rows;
}

// The first dialect is the default; for the others the table only shows the differences.
void dialect_tables(std::string& out) {
  const std::string_view usual = dialect_names().front();
  const DialectRows usual_rows = dialect_rows(usual);
  for (const std::string_view name : dialect_names()) {
    const std::string about = name == usual ? "The default." : fmt::format("As `{}`, but:", usual);
    fmt::format_to(std::back_inserter(out), "\n## Dialect `{}`\n\n{}\n\n| | value |\n| --- | --- |\n", name, about);
    for (const auto& row : dialect_rows(name)) {
      if (name != usual && std::ranges::find(usual_rows, row) != usual_rows.end()) continue;
      fmt::format_to(std::back_inserter(out), "| {} | {} |\n", row.first, row.second);
    }
  }
}

std::string topic_page(const Topic& topic, const Config& config) {
  std::string out = fmt::format("# {}\n\n{}\n{}", topic.title, reference_text::notice, topic.introduction);
  if (topic.file == dialect_page) dialect_tables(out);
  section(out, "In a route", route_settings(), Route(), topic.file);
  section(out, "In `defaults` or in a route", policy_settings(), config.defaults, topic.file);
  section(out, "At the top of the file", process_settings(), config, topic.file);
  section(out, "In an upstream", upstream_settings(), Upstream(), topic.file);
  return out;
}

template <class Target>
bool first_setting(std::string& out, const FirstSetting& first, const Settings<Target>& settings,
                   const Target& defaults) {
  const auto setting = std::ranges::find(settings, first.name, &Setting<Target>::name);
  if (setting == settings.end()) return false;
  std::string anchor(first.name);
  std::erase(anchor, '.');
  const std::string value = default_of(*setting, defaults);
  fmt::format_to(std::back_inserter(out), "| {} | [`{}`]({}#{}) | {} |\n", first.decides, first.name,
                 page_of(first.name), anchor, value.empty() ? "" : fmt::format("`{}`", value));
  return true;
}

// The names of a page's settings, in their order on the page.
std::vector<std::string_view> names_on(std::string_view text) {
  std::vector<std::string_view> found;
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with("### `")) found.push_back(line.substr(4));
  }
  return found;
}

std::string index_page(const Config& config, std::span<const ReferencePage> pages) {
  std::string out = fmt::format("# Configuration\n\n{}\n{}", reference_text::notice, reference_text::index_head);
  out += "\n| decides | setting | default |\n| --- | --- | --- |\n";
  for (const FirstSetting& first : first_settings) {
    const bool found = first_setting(out, first, process_settings(), config) ||
                       first_setting(out, first, policy_settings(), config.defaults);
    ONCE_ASSERT(found);
  }
  out += "\n## All settings, by topic\n\n";
  for (std::size_t i = 0; i < topics.size(); ++i) {
    fmt::format_to(std::back_inserter(out), "- [{}]({}): {}\n", topics[i].title, topics[i].file,
                   fmt::join(names_on(pages[i].text), ", "));
  }
  out += reference_text::index_rules;
  return out;
}

}  // namespace

std::vector<ReferencePage> reference_pages() {
  const Config config = builtin_config();
  std::vector<ReferencePage> pages;
  for (const Topic& topic : topics) pages.push_back({.file = topic.file, .text = topic_page(topic, config)});
  pages.insert(pages.begin(), {.file = "README.md", .text = index_page(config, pages)});
  return pages;
}

}  // namespace once::config
