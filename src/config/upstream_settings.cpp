// The settings of an upstream.
#include "config/settings.hpp"
#include "gateway/upstream/upstream_group.hpp"

namespace once::config {

namespace {

using namespace std::chrono_literals;

Setting<Upstream> servers_setting() {
  Setting<Upstream> setting = list<Upstream>(
      "servers", [](auto& u) -> auto& { return u.servers; }, server_codec(), "",
      "The servers of the upstream. Each can serve every request. A name with several addresses is one server: the "
      "first address that answers is used.");
  setting.range = fmt::format("1 to {}", most_servers);
  setting.set = [set = setting.set](Upstream& upstream, const Values& values) -> Parsed<void> {
    if (values.empty() || values.size() > most_servers) {
      return std::unexpected(fmt::format("from 1 to {} servers, got {}", most_servers, values.size()));
    }
    return set(upstream, values);
  };
  setting.items = {.least = 1, .most = most_servers};
  return setting;
}

Settings<Upstream> health_settings() {
  return {
      one<Upstream>(
          "health.path", [](auto& u) -> auto& { return u.health.path; }, health_path_codec(),
          "The path of the health check, a GET to every server, without base_path. 2xx and 3xx within 2 seconds are "
          "good. A server is down after 3 bad checks in a row, and up again after 2 good ones. Empty: no health "
          "checks."),
      one<Upstream>(
          "health.interval", [](auto& u) -> auto& { return u.health.interval; }, duration_codec({100ms, 1h}),
          "The time from the end of one check to the next. A server is avoided for twice as long after 3 failed "
          "connections in a row, and when it is ejected. Then one request tries it."),
      one<Upstream>(
          "eject.failures", [](auto& u) -> auto& { return u.eject.failures; }, number_codec({0, 1000}),
          "A server gets no new requests for a while after this many in a row that it answered with 5xx (except 501 "
          "and 505), too late, or not at all. At most half of the servers are ejected at one time. 0: never."),
      one<Upstream>(
          "retry.safe", [](auto& u) -> auto& { return u.retry_safe; },
          choice_codec<RetrySafe>(
              {{"off", RetrySafe::off}, {"lost", RetrySafe::lost}, {"unavailable", RetrySafe::unavailable}}),
          "When a GET, HEAD, OPTIONS or QUERY without a key and without a body is sent to a second server. lost: the "
          "connection was lost before the first byte of a response. unavailable: also after 502, 503 or 504. One "
          "request in ten may be sent twice. Other requests go to a second server only if nothing was sent to the "
          "first."),
  };
}

Parsed<void> set_upstream(Config& config, const Values& name_and_url) {
  Parsed<Upstream> upstream = parse_upstream(name_and_url.at(1));
  if (const auto checked = check_plain_name(name_and_url.at(0)); !checked) return checked;
  if (!upstream) return std::unexpected(upstream.error());
  upstream->name = name_and_url.at(0);
  // An override on the command line: it changes the address, and the other settings of the file remain.
  const auto known = std::ranges::find(config.upstreams, upstream->name, &Upstream::name);
  if (known == config.upstreams.end()) return add_upstream(config, std::move(*upstream));
  known->servers = std::move(upstream->servers);
  known->base_path = std::move(upstream->base_path);
  return {};
}

}  // namespace

Parsed<void> check_plain_name(std::string_view name) {
  const bool plain = !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
  if (plain) return {};
  return std::unexpected(fmt::format("a name has 1 to 64 letters, digits, - and _, got \"{}\"", name));
}

Parsed<void> add_upstream(Config& config, Upstream upstream) {
  if (auto checked = check_plain_name(upstream.name); !checked) return checked;
  const auto known = std::ranges::find(config.upstreams, upstream.name, &Upstream::name);
  if (known != config.upstreams.end()) {
    *known = std::move(upstream);
  } else {
    // Requests without a route go to the first upstream.
    const auto place = upstream.name == "default" ? config.upstreams.begin() : config.upstreams.end();
    config.upstreams.insert(place, std::move(upstream));
  }
  return {};
}

Setting<Config> upstreams_setting() {
  return {
      .name = "upstreams",
      .shape = Shape::map,
      .expected = "names with a URL such as http://127.0.0.1:9000, or a map of settings, each",
      .range = "",
      .help =
          "The backends. Requests that no route matches go to the upstream named default, or else to the first one. "
          "An entry that is a map has the settings of an upstream.",
      .set = set_upstream,
      .get = [](const Config& config) -> Values {
        Values values;
        for (const Upstream& upstream : config.upstreams) {
          values.push_back(fmt::format("{}: {}", upstream.name, format_upstream(upstream)));
        }
        return values;
      },
      .syntax = string_syntax(syntax::upstream_url()),
  };
}

const Settings<Upstream>& upstream_settings() {
  static const Settings<Upstream> table = [] {
    Settings<Upstream> all = {
        servers_setting(),
        one<Upstream>(
            "base_path", [](auto& u) -> auto& { return u.base_path; }, base_path_codec(),
            "A prefix for the path of every request."),
        one<Upstream>(
            "balance", [](auto& u) -> auto& { return u.balance; },
            choice_codec<Balance>(
                {{"round_robin", Balance::round_robin}, {"least_connections", Balance::least_connections}}),
            "Which server gets the next request: in turn, or the one with the fewest requests of the same thread."),
        one<Upstream>(
            "max_connections", [](auto& u) -> auto& { return u.max_connections; }, number_codec({0, 100'000}),
            "Concurrent connections of the process to each server. Each thread has a share, at least one. 0: no "
            "limit."),
        one<Upstream>(
            "queue", [](auto& u) -> auto& { return u.queue; }, number_codec({0, 100'000}),
            "Requests that may wait for a connection when every server has reached max_connections. Each thread has "
            "a share, at least one. More get 503 upstream-busy, and so does a request that has waited for "
            "timeouts.connect."),
    };
    for (Setting<Upstream>& setting : health_settings()) all.push_back(std::move(setting));
    all.push_back(one<Upstream>(
        "host", [](auto& u) -> auto& { return u.host; }, host_rule_codec(),
        "The Host header for the backend: the client's, the server's own, or a fixed name."));
    all.push_back(one<Upstream>(
        "forwarded", [](auto& u) -> auto& { return u.forwarded; },
        choice_codec<ForwardedFields>({{"x-forwarded", ForwardedFields::x_forwarded},
                                       {"forwarded", ForwardedFields::forwarded},
                                       {"both", ForwardedFields::both},
                                       {"off", ForwardedFields::off}}),
        "The headers that give the backend the client's address: X-Forwarded-For, -Proto and -Host, or Forwarded "
        "(RFC 7239). off: the client's headers are forwarded unchanged."));
    all.push_back(one<Upstream>(
        "via", [](auto& u) -> auto& { return u.via; }, yes_no_codec(),
        "Whether requests get a Via header, as RFC 9110 requires of a gateway. Some servers do not compress their "
        "responses to such requests (nginx: gzip_proxied)."));
    return all;
  }();
  return table;
}

}  // namespace once::config
