#include "store/mysql/target.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace once::mysql {

namespace {

constexpr std::uint16_t default_port = 3306;
constexpr const char* default_host = "127.0.0.1";

std::unexpected<Error> wrong(std::string detail) {
  return std::unexpected(Error{.source = ErrorSource::config, .retryable = Retryable::no, .detail = std::move(detail)});
}

bool set_ssl_mode(Target& target, std::string_view value) {
  if (value == "disabled") {
    target.ssl_mode = SslMode::disabled;
  } else if (value == "required") {
    target.ssl_mode = SslMode::required;
  } else if (value == "verify-identity") {
    target.ssl_mode = SslMode::verify_identity;
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::optional<Procedures> parse_procedures(std::string_view value) {
  if (value == "on") return Procedures::on;
  if (value == "off") return Procedures::off;
  return std::nullopt;
}

std::string unverified_host(const Target& target) {
  if (target.ssl_mode == SslMode::verify_identity) return {};
  const auto found = std::ranges::find_if(target.hosts, [](const StoreHost& host) { return !is_local(host.name); });
  return found == target.hosts.end() ? "" : found->name;
}

Result<Target> parse_target(const std::string& text) {
  auto url = parse_store_url(text);
  if (!url) return std::unexpected(url.error());
  if (url->scheme != "mysql" && url->scheme != "mariadb") return wrong("the store's URL must begin with mysql://");
  if (url->database.empty())
    return wrong("the store's URL names no database: mysql://USER:PASSWORD@HOST:PORT/DATABASE");
  Target target;
  target.hosts = std::move(url->hosts);
  for (StoreHost& host : target.hosts) {
    if (host.name.empty()) host.name = default_host;
    if (host.port == 0) host.port = default_port;
  }
  target.user = std::move(url->user);
  target.password = std::move(url->password);
  target.database = std::move(url->database);
  bool mode_given = false;
  for (auto& [name, value] : url->options) {
    if (name == "ssl-mode") {
      if (!set_ssl_mode(target, value)) return wrong("ssl-mode must be disabled, required or verify-identity");
      mode_given = true;
    } else if (name == "ssl-ca") {
      target.ssl_ca = std::move(value);
    } else if (name == "ssl-cert") {
      target.ssl_cert = std::move(value);
    } else if (name == "ssl-key") {
      target.ssl_key = std::move(value);
    } else if (name == "procedures") {
      const auto procedures = parse_procedures(value);
      if (!procedures) return wrong("procedures must be on or off");
      target.procedures = *procedures;
    } else {
      return wrong(fmt::format(
          "unknown option \"{}\" in the store's URL; known are ssl-mode, ssl-ca, ssl-cert, ssl-key and procedures",
          name));
    }
  }
  if (!mode_given && !target.ssl_ca.empty()) target.ssl_mode = SslMode::verify_identity;
  return target;
}

}  // namespace once::mysql
