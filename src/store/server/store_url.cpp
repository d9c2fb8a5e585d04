#include "store/server/store_url.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "base/bytes.hpp"
#include "base/text.hpp"

namespace once::store {

namespace {

constexpr std::string_view hidden = "***";

std::unexpected<Error> wrong(std::string detail) {
  return std::unexpected(Error{.source = ErrorSource::config, .retryable = Retryable::no, .detail = std::move(detail)});
}

Result<std::string> decoded(std::string_view text, std::string_view part) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    const auto byte = from_hex(text.substr(i + 1, 2));
    if (!byte || byte->size() != 1 || byte->front() == '\0') {
      return wrong(fmt::format("the {} of the store's URL has a % without two hex digits after it", part));
    }
    out += *byte;
    i += 2;
  }
  return out;
}

struct Parts {
  std::string_view scheme;
  std::string_view user_info;  // before the last @ of the authority
  std::string_view hosts;
  std::string_view database;
  std::string_view query;
  bool has_user_info = false;
};

std::string_view cut(std::string_view& text, std::string_view at_any_of) {
  const std::size_t end = std::min(text.find_first_of(at_any_of), text.size());
  const std::string_view first = text.substr(0, end);
  text.remove_prefix(end);
  return first;
}

std::optional<Parts> split_url(std::string_view text) {
  Parts parts;
  const std::size_t colon = text.find("://");
  if (colon == std::string_view::npos) return std::nullopt;
  parts.scheme = text.substr(0, colon);
  text.remove_prefix(colon + 3);
  std::string_view authority = cut(text, "/?");
  if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos) {
    parts.user_info = authority.substr(0, at);
    parts.has_user_info = true;
    authority.remove_prefix(at + 1);
  }
  parts.hosts = authority;
  if (text.starts_with('/')) {
    text.remove_prefix(1);
    parts.database = cut(text, "?");
  }
  if (text.starts_with('?')) parts.query = text.substr(1);
  return parts;
}

Result<StoreHost> parse_host(std::string_view text) {
  StoreHost host;
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return wrong("an IPv6 address in the store's URL has no ] at its end");
    host.name = text.substr(1, end - 1);
    port = text.substr(end + 1);
  } else {
    const std::string_view name = cut(text, ":");
    auto plain = decoded(name, "host");
    if (!plain) return std::unexpected(plain.error());
    host.name = std::move(*plain);
    port = text;
  }
  if (port.empty()) return host;
  const auto number = port.starts_with(':') ? parse_number(port.substr(1)) : std::nullopt;
  if (!number || *number == 0 || *number > 65'535) {
    return wrong(fmt::format("the port of host \"{}\" in the store's URL must be a number from 1 to 65535", host.name));
  }
  host.port = static_cast<std::uint16_t>(*number);
  return host;
}

bool may_be_secret(std::string_view option) {
  return option.contains("pass") || option.contains("secret") || option.contains("token");
}

}  // namespace

bool is_local(std::string_view host) {
  const bool address = host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host.empty() || host == "localhost" || host.ends_with(".localhost") || host == "::1" ||
         host.starts_with('/') || host.starts_with('@') || (address && host.starts_with("127."));
}

const std::string* StoreUrl::option(std::string_view name) const {
  const auto found = std::ranges::find(options, name, [](const auto& pair) { return std::string_view(pair.first); });
  return found == options.end() ? nullptr : &found->second;
}

Result<StoreUrl> parse_store_url(std::string_view text) {
  const auto parts = split_url(text);
  if (!parts) return wrong("the store's URL must begin with its kind and ://");
  StoreUrl url;
  url.scheme = parts->scheme;
  // Drivers disagree on where such a name ends, and could show a part of the password as the host.
  if (parts->user_info.contains('@') || parts->database.contains('@')) {
    return wrong("in the user and the password of the store's URL @ must be written %40, and / as %2F");
  }
  std::string_view user_info = parts->user_info;
  auto user = decoded(cut(user_info, ":"), "user");
  if (!user) return std::unexpected(user.error());
  url.user = std::move(*user);
  if (!user_info.empty()) {
    auto password = decoded(user_info.substr(1), "password");
    if (!password) return std::unexpected(password.error());
    url.password = std::move(*password);
  }
  for (const std::string_view each : split(parts->hosts, ',')) {
    auto host = parse_host(each);
    if (!host) return std::unexpected(host.error());
    url.hosts.push_back(std::move(*host));
  }
  auto database = decoded(parts->database, "database");
  if (!database) return std::unexpected(database.error());
  url.database = std::move(*database);
  if (parts->query.empty()) return url;
  for (std::string_view pair : split(parts->query, '&')) {
    const std::string_view name = cut(pair, "=");
    if (name.empty()) return wrong("an option of the store's URL has no name");
    auto value = decoded(pair.empty() ? pair : pair.substr(1), "option");
    if (!value) return std::unexpected(value.error());
    url.options.emplace_back(name, std::move(*value));
  }
  return url;
}

Result<void> check_url_file(std::string_view option, const std::string& path) {
  if (path.empty() || ::access(path.c_str(), R_OK) == 0) return {};
  const std::string why = std::generic_category().message(errno);
  return wrong(fmt::format("option {} of the store's URL: {}: {}", option, path, why));
}

std::string without_password(std::string_view text) {
  const auto parts = split_url(text);
  if (!parts) return std::string(text);
  if (parts->database.contains('@')) return fmt::format("{}://{}", parts->scheme, hidden);
  std::string out = fmt::format("{}://", parts->scheme);
  if (parts->has_user_info) {
    std::string_view user_info = parts->user_info;
    out += cut(user_info, ":");
    if (!user_info.empty()) out.append(":").append(hidden);
    out += '@';
  }
  out += parts->hosts;
  if (!parts->database.empty()) out.append("/").append(parts->database);
  if (parts->query.empty()) return out;
  char separator = '?';
  for (std::string_view pair : split(parts->query, '&')) {
    const std::string_view name = cut(pair, "=");
    out += separator;
    out += name;
    if (!pair.empty()) out.append(may_be_secret(name) ? "=***" : pair);
    separator = '&';
  }
  return out;
}

}  // namespace once::store
