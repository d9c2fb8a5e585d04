// Finds errors in a URL that libpq would report only when it connects, or not at all.
#include <algorithm>
#include <initializer_list>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <libpq-fe.h>

#include "base/text.hpp"
#include "store/postgres/connection.hpp"
#include "store/server/store_url.hpp"

namespace once::postgres {

namespace {

struct Choice {
  std::string_view option;
  std::initializer_list<std::string_view> words;
};

constexpr std::initializer_list<std::string_view> ssl_modes = {"disable", "allow",     "prefer",
                                                               "require", "verify-ca", "verify-full"};
constexpr std::initializer_list<std::string_view> thrice = {"disable", "prefer", "require"};
constexpr std::initializer_list<std::string_view> sessions = {"any",     "read-write", "read-only",
                                                              "primary", "standby",    "prefer-standby"};
constexpr Choice url_choices[] = {
    {"sslmode", ssl_modes}, {"channel_binding", thrice}, {"gssencmode", thrice}, {"target_session_attrs", sessions}};
constexpr std::string_view url_numbers[] = {"connect_timeout",     "keepalives",       "keepalives_idle",
                                            "keepalives_interval", "keepalives_count", "tcp_user_timeout"};
constexpr std::string_view url_files[] = {"sslrootcert", "sslcert", "sslkey", "sslcrl"};

std::unexpected<Error> wrong_url(std::string detail) {
  return std::unexpected(Error{.source = ErrorSource::config, .retryable = Retryable::no, .detail = std::move(detail)});
}

// A password that contains a ? would appear here: show only what looks like an option.
std::string shown_option(std::string_view option) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz_";
  const bool plain = option.size() <= 32 && option.find_first_not_of(letters) == std::string_view::npos;
  return plain ? fmt::format("unknown option \"{}\"", option) : std::string("an unknown option");
}

// libpq accepts ssl=true, as other drivers have it, for sslmode=require.
bool is_known_option(const PQconninfoOption* all, std::string_view name) {
  for (const PQconninfoOption* option = all; option->keyword != nullptr; ++option) {
    if (name == option->keyword) return true;
  }
  return name == "ssl";
}

Result<void> check_value(const std::string& name, const std::string& value) {
  for (const Choice& choice : url_choices) {
    if (name != choice.option || std::ranges::find(choice.words, value) != choice.words.end()) continue;
    return wrong_url(
        fmt::format("option {} of the store's URL must be one of {}", name, fmt::join(choice.words, ", ")));
  }
  if (std::ranges::find(url_numbers, name) != std::end(url_numbers) && !parse_number(value)) {
    return wrong_url(fmt::format("option {} of the store's URL must be a number", name));
  }
  const bool file = std::ranges::find(url_files, name) != std::end(url_files);
  if (file && !(name == "sslrootcert" && value == "system")) return check_url_file(name, value);
  return {};
}

}  // namespace

Result<void> check_url(const std::string& url) {
  const auto parts = parse_store_url(url);
  if (!parts) return std::unexpected(parts.error());
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> known(PQconndefaults(), &PQconninfoFree);
  for (const auto& [name, value] : parts->options) {
    if (known && !is_known_option(known.get(), name))
      return wrong_url(fmt::format("{} in the store's URL", shown_option(name)));
    if (auto checked = check_value(name, value); !checked) return checked;
  }
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> parsed(PQconninfoParse(url.c_str(), nullptr),
                                                                            &PQconninfoFree);
  if (!parsed) return wrong_url("PostgreSQL's client library does not understand the store's URL");
  return {};
}

}  // namespace once::postgres
