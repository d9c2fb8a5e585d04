#include "store/redis/options.hpp"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"

namespace once::redis {

namespace {

constexpr std::uint16_t server_port = 6379;
constexpr std::uint16_t sentinel_port = 26379;
constexpr std::size_t longest_prefix = 64;
constexpr std::uint64_t largest_database = 1'000'000;

constexpr std::array<std::string_view, 9> known_options = {
    "cluster", "sentinel", "prefix", "ca", "cert", "key", "insecure", "sentinel_user", "sentinel_password"};

std::unexpected<Error> wrong(std::string detail) {
  return std::unexpected(Error{.source = ErrorSource::config, .retryable = Retryable::no, .detail = std::move(detail)});
}

Result<bool> parse_switch(std::string_view name, std::string_view value) {
  if (value == "1" || value == "true") return true;
  if (value == "0" || value == "false") return false;
  return wrong(fmt::format("option {} of the Redis URL must be 0 or 1", name));
}

Result<void> take_option(Options& options, const std::string& name, const std::string& value) {
  if (name == "cluster" || name == "insecure") {
    const auto on = parse_switch(name, value);
    if (!on) return std::unexpected(on.error());
    if (name == "insecure") options.tls.verify = !*on;
    if (name == "cluster" && *on) {
      if (options.mode == Mode::sentinel)
        return wrong("the Redis URL has both cluster and sentinel; it can be only one");
      options.mode = Mode::cluster;
    }
  } else if (name == "sentinel") {
    if (value.empty()) return wrong("option sentinel of the Redis URL must be the master's name at the sentinels");
    if (options.mode == Mode::cluster) return wrong("the Redis URL has both cluster and sentinel; it can be only one");
    options.mode = Mode::sentinel;
    options.sentinel_name = value;
  } else if (name == "prefix") {
    if (value.size() > longest_prefix) return wrong("option prefix of the Redis URL is longer than 64 bytes");
    options.prefix = value;
  } else if (name == "ca") {
    options.tls.ca = value;
  } else if (name == "cert") {
    options.tls.cert = value;
  } else if (name == "key") {
    options.tls.key = value;
  } else if (name == "sentinel_user") {
    options.sentinel_login.user = value;
  } else if (name == "sentinel_password") {
    options.sentinel_login.password = value;
  } else {
    return wrong(
        fmt::format("unknown option \"{}\" in the Redis URL; known are {}", name, fmt::join(known_options, ", ")));
  }
  return {};
}

Result<void> check(const Options& options) {
  const TlsFiles& tls = options.tls;
  const bool has_tls_options = !tls.ca.empty() || !tls.cert.empty() || !tls.key.empty() || !tls.verify;
  if (!tls.on && has_tls_options) return wrong("options ca, cert, key and insecure are for rediss:// URLs");
  if (tls.cert.empty() != tls.key.empty()) return wrong("options cert and key of the Redis URL go together");
  if (options.mode == Mode::cluster && options.database != 0) return wrong("a Redis Cluster has only database 0");
  if (!options.login.user.empty() && options.login.password.empty())
    return wrong("the Redis URL has a user but no password");
  return {};
}

}  // namespace

Result<Options> parse_options(std::string_view text) {
  const auto url = parse_store_url(text);
  if (!url) return std::unexpected(url.error());
  if (url->scheme != "redis" && url->scheme != "rediss") return wrong("a Redis URL begins with redis:// or rediss://");
  Options options;
  options.tls.on = url->scheme == "rediss";
  options.login = {.user = url->user, .password = url->password};
  for (const auto& [name, value] : url->options) {
    if (const auto taken = take_option(options, name, value); !taken) return std::unexpected(taken.error());
  }
  if (!url->database.empty()) {
    const auto number = parse_number(url->database);
    if (!number || *number > largest_database) return wrong("the database in the Redis URL must be a number");
    options.database = *number;
  }
  for (StoreHost host : url->hosts) {
    if (host.name.empty()) host.name = "127.0.0.1";
    if (host.port == 0) host.port = options.mode == Mode::sentinel ? sentinel_port : server_port;
    options.hosts.push_back(std::move(host));
  }
  if (const auto checked = check(options); !checked) return std::unexpected(checked.error());
  return options;
}

std::string name_of(const StoreHost& host) {
  return host.name.contains(':') ? fmt::format("[{}]:{}", host.name, host.port)
                                 : fmt::format("{}:{}", host.name, host.port);
}

}  // namespace once::redis
