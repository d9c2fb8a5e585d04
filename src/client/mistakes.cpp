#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "base/text.hpp"
#include "client/operation.hpp"
#include "core/fields.hpp"
#include "core/key.hpp"

namespace once::client {

namespace {

bool is_http_url(std::string_view url) {
  const bool clean = std::ranges::none_of(url, [](char c) { return c <= ' ' || c == 0x7F; });
  return clean && (url.starts_with("http://") || url.starts_with("https://"));
}

std::string mistake_in_header(const Header& header, std::string_view key_header) {
  if (!is_token(header.name)) return fmt::format("\"{}\" is not a header name", header.name);
  if (!is_field_value(header.value)) return fmt::format("the value of {} has control characters", header.name);
  if (iequals(header.name, key_header)) return fmt::format("{} is the header of the key", key_header);
  // The body is sent unchanged, so its framing is not up to the caller.
  constexpr std::array<std::string_view, 2> framing = {"Content-Length", "Transfer-Encoding"};
  for (const std::string_view name : framing) {
    if (iequals(header.name, name)) return fmt::format("{} cannot be set", name);
  }
  return {};
}

std::string mistake_in_times(const Options& options) {
  if (options.deadline <= Duration::zero()) return "the deadline must be greater than zero";
  if (options.try_timeout <= Duration::zero()) return "the time for a try must be greater than zero";
  if (options.connect_timeout <= Duration::zero()) return "the time to connect must be greater than zero";
  if (options.first_backoff < Duration::zero() || options.longest_backoff < options.first_backoff) {
    return "the longest backoff must not be shorter than the first";
  }
  return {};
}

}  // namespace

std::string mistake_in(const Options& options, const Request& request) {
  if (std::string mistake = mistake_in_times(options); !mistake.empty()) return mistake;
  if (options.client_certificate.empty() != options.client_certificate_key.empty()) {
    return "a client certificate and its private key come together";
  }
  if (!is_token(options.key_header)) return fmt::format("\"{}\" is not a header name", options.key_header);
  if (!is_token(request.method)) return fmt::format("\"{}\" is not a method", request.method);
  if (!is_http_url(request.url)) return "the URL must begin with http:// or https:// and have no blanks";
  for (const Header& header : request.headers) {
    if (std::string mistake = mistake_in_header(header, options.key_header); !mistake.empty()) return mistake;
  }
  if (request.key.empty()) return {};
  if (const auto key = parse_key(request.key, longest_key); !key) {
    return fmt::format("the key cannot be used: {}", describe(key.error()));
  }
  return {};
}

}  // namespace once::client
