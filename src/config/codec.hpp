// A codec for one kind of value: a description of what is expected with its limits, parsing from text, and formatting
// to text. It does not know settings: setting.hpp connects it with a name and a field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "config/config.hpp"
#include "config/syntax.hpp"

namespace once::config {

// The error is the text after "name: ".
template <class T>
using Parsed = std::expected<T, std::string>;

template <class T>
struct Codec {
  std::string expected;  // "a duration such as 24h"
  std::string range;     // "1s to 365d", or empty
  std::function<Parsed<T>(const std::string&)> parse;
  std::function<std::string(const T&)> format;
  Syntax syntax;
};

template <class T>
struct Range {
  T least;
  T most;
};

// expected a duration such as 24h, got "soon"
std::unexpected<std::string> not_expected(std::string_view expected, std::string_view got);

constexpr std::size_t one_kib = 1024;
constexpr std::size_t one_mib = one_kib * 1024;
constexpr std::size_t one_gib = one_mib * 1024;
constexpr std::size_t one_tib = one_gib * 1024;

Codec<Duration> duration_codec(Range<Duration> range);
Codec<std::size_t> size_codec(Range<std::size_t> range);
Codec<std::size_t> number_codec(Range<std::size_t> range);
Codec<std::size_t> auto_or_number_codec(Range<std::size_t> range);  // 0 is written "auto"
Codec<unsigned> threads_codec();                                    // 0 is written "auto"
Codec<bool> yes_no_codec();
Codec<std::string> header_name_codec();
Codec<std::string> protocol_codec();  // of an upgrade
Codec<std::string> json_pointer_codec();
Codec<std::string> word_codec(std::size_t most);           // visible ASCII
Codec<std::string> optional_word_codec(std::size_t most);  // may be empty
Codec<std::string> path_codec();                           // of a file or folder
Codec<std::string> optional_path_codec();                  // may be empty
Codec<std::string> upstream_name_codec();                  // may be empty
Codec<std::string> address_codec();
Codec<std::string> address_or_off_codec();
Codec<std::string> listener_or_off_codec();  // an address, a Unix socket or off
Codec<std::string> network_codec();
// Equivalent host names separated by spaces, or * for all hosts.
Codec<std::string> same_hosts_codec();
Codec<std::string> base_path_codec();    // without a slash at its end; may be empty
Codec<std::string> health_path_codec();  // may be empty
Codec<std::string> host_rule_codec();    // the Host that a backend gets
Codec<std::string> route_host_codec();   // the hosts that a route matches
Codec<UpstreamServer> server_codec();
Codec<std::string> store_codec();
Codec<std::string> secret_source_codec();  // file:PATH, env:NAME or the secret itself, which is never shown; may be
                                           // empty
Codec<std::string> pattern_codec();
Codec<CallerSource> caller_codec();
Codec<KeySource> key_source_codec();
Codec<Method> method_codec();
Codec<std::string> origin_codec();  // as browsers send it, or *

// The words for the values of an enum, in the order in which they are shown.
template <class Enum>
using Choices = std::vector<std::pair<std::string_view, Enum>>;

// "retry, takeover or hold"
std::string or_list(const std::vector<std::string_view>& words);
// YAML has several spellings of a truth value. If `words` contains on, yes or true, the other two are accepted for
// it, and likewise for off, no and false. Returns the word that `text` stands for, or `text` itself.
std::string_view same_word(std::string_view text, const std::vector<std::string_view>& words);
// `words` with all of their accepted spellings.
std::vector<std::string_view> with_spellings(const std::vector<std::string_view>& words);
// "; did you mean …" if `word` resembles one of the others; else empty.
std::string suggestion(std::string_view word, const std::vector<std::string_view>& words);

template <class Enum>
Codec<Enum> choice_codec(const Choices<Enum>& choices) {
  std::vector<std::string_view> words;
  for (const auto& [word, value] : choices) words.push_back(word);
  const std::string expected = or_list(words);
  return {
      .expected = expected,
      .range = "",
      .parse = [=](const std::string& text) -> Parsed<Enum> {
        const std::string_view meant = same_word(text, words);
        for (const auto& [word, value] : choices) {
          if (word == meant) return value;
        }
        return std::unexpected(not_expected(expected, text).error() + suggestion(text, words));
      },
      .format =
          [=](const Enum& wanted) {
            for (const auto& [word, value] : choices) {
              if (value == wanted) return std::string(word);
            }
            return std::string();
          },
      .syntax = words_syntax(words),
  };
}

Parsed<MethodSet> parse_methods(const std::vector<std::string>& values);
std::vector<std::string> format_methods(const MethodSet& methods);

// Statuses as a list of codes and classes: 404, 2xx.
Parsed<StatusSet> parse_statuses(const std::vector<std::string>& values);
std::vector<std::string> format_statuses(const StatusSet& set);

struct Address {
  std::string host;  // IPv6 without brackets
  std::uint16_t port = 0;
};

// 127.0.0.1:8080, localhost:8080 or [::1]:8080.
std::optional<Address> parse_address(std::string_view text);

// http[s]://HOST[:PORT][/BASE] or unix:/path/to.sock: an upstream with one server. The name is left empty.
Parsed<Upstream> parse_upstream(std::string_view url);
std::string format_upstream(const Upstream& upstream);

}  // namespace once::config
