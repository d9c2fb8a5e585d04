// Where to listen and where the backends are.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"
#include "config/codec.hpp"
#include "gateway/identity/host.hpp"
#include "gateway/upstream/upstream_state.hpp"
#include "http/address_set.hpp"

namespace once::config {

namespace {

constexpr std::string_view address_expected = "an address such as 127.0.0.1:8080 or [::1]:8080";
constexpr std::string_view url_expected = "a URL such as http://127.0.0.1:9000";
constexpr std::string_view server_expected = "http://HOST, http://HOST:PORT or unix:/path/to.sock";
constexpr std::string_view unix_prefix = "unix:";
constexpr std::size_t longest_host = 253;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

bool is_ipv6_character(char c) {
  return (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || (c >= '0' && c <= '9') || c == ':' || c == '.';
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  const auto number = parse_number(text);
  if (!number || *number > 65535 || text.size() > 5) return std::nullopt;
  return static_cast<std::uint16_t>(*number);
}

// HOST or HOST:PORT.
std::optional<Address> parse_authority(std::string_view text, std::optional<std::uint16_t> default_port) {
  const bool ipv6 = text.starts_with('[');
  const std::size_t host_end = ipv6 ? text.find(']') : std::min(text.find(':'), text.size());
  if (host_end == std::string_view::npos) return std::nullopt;
  const std::string_view host = ipv6 ? text.substr(1, host_end - 1) : text.substr(0, host_end);
  std::string_view rest = text.substr(host_end + (ipv6 ? 1 : 0));
  const bool valid = ipv6 ? std::ranges::all_of(host, is_ipv6_character) && host.contains(':')
                          : std::ranges::all_of(host, is_name_character);
  if (host.empty() || host.size() > longest_host || !valid) return std::nullopt;
  if (rest.empty() && default_port) return Address{.host = std::string(host), .port = *default_port};
  if (!rest.starts_with(':')) return std::nullopt;
  rest.remove_prefix(1);
  const auto port = parse_port(rest);
  if (!port) return std::nullopt;
  return Address{.host = std::string(host), .port = *port};
}

bool is_base_path(std::string_view path) {
  return std::ranges::all_of(path, [](char c) { return c > ' ' && c < 0x7F; }) &&
         path.find_first_of("?#") == std::string_view::npos;
}

bool is_socket_path(std::string_view path) {
  constexpr std::size_t longest_path = 107;  // the limit of sun_path
  return !path.empty() && path.size() <= longest_path &&
         std::ranges::none_of(path, [](char c) { return (c >= 0 && c < ' ') || c == 0x7F; });
}

// The error for text that is not a URL. Shows the text without user, password and query, which may be secret.
std::unexpected<std::string> not_a_url(std::string_view expected, std::string_view given) {
  const std::size_t scheme = given.find("://");
  const std::size_t begin = scheme == std::string_view::npos ? 0 : scheme + 3;
  std::string shown(given.substr(0, given.find('?')));
  const std::size_t at = shown.rfind('@');
  const bool named = at != std::string::npos && at >= begin;
  if (named) shown.replace(begin, at - begin, "***");
  if (given.contains('?')) shown += "?***";
  std::string text = not_expected(expected, shown).error();
  if (named) text += "; a backend's URL cannot have a user or a password";
  return std::unexpected(std::move(text));
}

}  // namespace

std::optional<Address> parse_address(std::string_view text) {
  return parse_authority(text, std::nullopt);
}

namespace {

// Explains that :8080, as other servers accept it, needs a host.
std::unexpected<std::string> not_an_address(std::string_view expected, std::string_view text) {
  std::string why = not_expected(expected, text).error();
  const auto port = text.starts_with(':') ? parse_port(text.substr(1)) : std::nullopt;
  if (port) why += fmt::format("; every address of this machine is 0.0.0.0:{}", *port);
  return std::unexpected(std::move(why));
}

}  // namespace

Codec<std::string> address_codec() {
  return {
      .expected = std::string(address_expected),
      .range = "",
      .parse = [](const std::string& text) -> Parsed<std::string> {
        if (!parse_address(text)) return not_an_address(address_expected, text);
        return text;
      },
      .format = [](const std::string& text) { return text; },
  };
}

Codec<std::string> address_or_off_codec() {
  Codec<std::string> codec = address_codec();
  codec.expected += ", or off";
  codec.parse = [expected = codec.expected](const std::string& text) -> Parsed<std::string> {
    if (same_word(text, {"off"}) == "off") return "off";
    if (!parse_address(text)) return not_an_address(expected, text);
    return text;
  };
  codec.syntax = string_syntax(syntax::address());
  codec.syntax.words = {"off"};
  return codec;
}

Codec<std::string> listener_or_off_codec() {
  Codec<std::string> codec = address_or_off_codec();
  codec.expected = "an address such as 127.0.0.1:8082, unix:/path/to.sock, or off";
  codec.parse = [expected = codec.expected, address = codec.parse](const std::string& text) -> Parsed<std::string> {
    if (!text.starts_with(unix_prefix)) {
      const auto parsed = address(text);
      return parsed ? parsed : Parsed<std::string>(not_an_address(expected, text));
    }
    if (!is_socket_path(std::string_view(text).substr(unix_prefix.size()))) return not_expected(expected, text);
    return text;
  };
  codec.syntax.pattern = syntax::listener();
  return codec;
}

Codec<std::string> network_codec() {
  constexpr std::string_view expected = "an address, a network such as 10.0.0.0/8 or 2001:db8::/32, or unix";
  return {
      .expected = std::string(expected),
      .range = "",
      .parse = [=](const std::string& text) -> Parsed<std::string> {
        http::AddressSet set;
        if (!set.add(text)) return not_expected(expected, text);
        return text;
      },
      .format = [](const std::string& text) { return text; },
      .syntax = string_syntax(syntax::network()),
  };
}

Codec<std::string> same_hosts_codec() {
  constexpr std::string_view expected =
      "two or more hosts with a space between them, such as api.example.com api-eu.example.com, or * for all";
  return {
      .expected = std::string(expected),
      .range = "",
      .parse = [=](const std::string& text) -> Parsed<std::string> {
        if (text == HostNames::every_host) return text;
        const std::vector<std::string_view> names = split(text, ' ');
        const bool hosts =
            std::ranges::all_of(names, [](std::string_view name) { return !!parse_authority(name, 80); });
        if (!hosts || names.size() < 2) return not_expected(expected, text);
        return text;
      },
      .format = [](const std::string& text) { return text; },
      .syntax = string_syntax(syntax::same_hosts()),
  };
}

Codec<std::string> base_path_codec() {
  constexpr std::string_view expected = "a path such as /api";
  return {
      .expected = std::string(expected),
      .range = "",
      .parse = [=](const std::string& text) -> Parsed<std::string> {
        std::string_view path = text;
        if ((!path.empty() && !path.starts_with('/')) || !is_base_path(path)) return not_expected(expected, text);
        while (path.ends_with('/')) path.remove_suffix(1);
        return std::string(path);
      },
      .format = [](const std::string& path) { return path; },
      .syntax = string_syntax(syntax::base_path()),
  };
}

Codec<std::string> health_path_codec() {
  constexpr std::string_view expected = "a path such as /healthz, or nothing";
  return {
      .expected = std::string(expected),
      .range = "",
      .parse = [=](const std::string& text) -> Parsed<std::string> {
        const bool printable = std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7F; });
        if (!text.empty() && (!text.starts_with('/') || !printable || text.contains('#'))) {
          return not_expected(expected, text);
        }
        return text;
      },
      .format = [](const std::string& path) { return path; },
      .syntax = string_syntax(syntax::health_path()),
  };
}

Codec<std::string> host_rule_codec() {
  constexpr std::string_view expected = "keep, upstream, or a name such as api.internal";
  return {
      .expected = std::string(expected),
      .range = "",
      .parse = [=](const std::string& text) -> Parsed<std::string> {
        if (!parse_authority(text, 80)) return not_expected(expected, text);
        return text;
      },
      .format = [](const std::string& text) { return text; },
      .syntax = text_syntax(syntax::host_rule()),
  };
}

Codec<std::string> route_host_codec() {
  constexpr std::string_view expected = "a name such as api.example.com, or *.example.com for every name below it";
  return {
      .expected = std::string(expected),
      .range = "",
      .parse = [=](const std::string& text) -> Parsed<std::string> {
        const std::string_view name = std::string_view(text).substr(text.starts_with("*.") ? 2 : 0);
        const bool has_port =
            name.find(':', name.starts_with('[') ? std::min(name.find(']'), name.size()) : 0) != std::string_view::npos;
        if (has_port || !parse_authority(name, 80)) return not_expected(expected, text);
        return text;
      },
      .format = [](const std::string& text) { return text; },
      .syntax = text_syntax(syntax::route_host()),
  };
}

Codec<UpstreamServer> server_codec() {
  return {
      .expected = std::string(server_expected),
      .range = "",
      .parse = [](const std::string& text) -> Parsed<UpstreamServer> {
        const auto parsed = parse_upstream(text);
        if (!parsed) return std::unexpected(parsed.error());
        const std::size_t host = text.find("://");
        const bool has_path = host != std::string::npos && text.find('/', host + 3) != std::string::npos;
        if (has_path) {
          return std::unexpected(
              fmt::format("{}; the path of all servers is base_path", not_a_url(server_expected, text).error()));
        }
        return parsed->servers.front();
      },
      .format = server_name,
      .syntax = string_syntax(syntax::server()),
  };
}

Parsed<Upstream> parse_upstream(std::string_view url) {
  constexpr std::string_view http = "http://";
  constexpr std::string_view https = "https://";
  Upstream upstream;
  UpstreamServer& server = upstream.servers.emplace_back();
  if (url.starts_with(unix_prefix)) {
    const std::string_view path = url.substr(unix_prefix.size());
    if (!is_socket_path(path) || !path.starts_with('/')) return not_a_url(url_expected, url);
    server.socket = std::string(path);
    return upstream;
  }
  const bool secure = url.starts_with(https);
  if (!secure && !url.starts_with(http)) return not_a_url(url_expected, url);
  const std::string_view rest = url.substr(secure ? https.size() : http.size());
  const std::size_t path_begin = std::min(rest.find('/'), rest.size());
  const auto address = parse_authority(rest.substr(0, path_begin), secure ? 443 : 80);
  std::string_view path = rest.substr(path_begin);
  if (!address || address->port == 0 || !is_base_path(path)) return not_a_url(url_expected, url);
  while (path.ends_with('/')) path.remove_suffix(1);
  server.scheme = secure ? UpstreamServer::Scheme::https : UpstreamServer::Scheme::http;
  server.host = address->host;
  server.port = address->port;
  upstream.base_path = std::string(path);
  return upstream;
}

std::string format_upstream(const Upstream& upstream) {
  std::vector<std::string> names;
  for (const UpstreamServer& server : upstream.servers) names.push_back(server_name(server));
  return fmt::format("{}{}", fmt::join(names, ", "), upstream.base_path);
}

}  // namespace once::config
