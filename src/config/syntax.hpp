// Regular expressions for the text of values, for the JSON schema of the configuration. Codecs define what a value
// means; tests compare the two.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"

namespace once::config {

struct Syntax {
  struct Numbers {
    std::uint64_t least = 0;
    std::uint64_t most = 0;
  };

  std::vector<std::string> words;  // one of these in any spelling, if there are any
  std::string pattern;             // or what matches this regular expression (ECMA-262); empty without words: anything
  std::optional<Numbers> numbers;  // it may stand there as a number, too
  bool any_scalar = true;          // what YAML takes for a number or a truth value is a text like any other
};

// Decimal numbers from `least` to `most`, with any zeros before them, as a regular expression without anchors.
std::string digits_between(std::uint64_t least, std::uint64_t most);

Syntax words_syntax(const std::vector<std::string_view>& words);
Syntax text_syntax(std::string pattern);    // that may look like a number
Syntax string_syntax(std::string pattern);  // that cannot
Syntax number_syntax(std::uint64_t least, std::uint64_t most);
Syntax size_syntax(std::uint64_t least, std::uint64_t most);
Syntax duration_syntax(Duration least, Duration most);

// Regular expressions for what is told by a test in C++.
namespace syntax {
std::string header_name();
std::string visible(std::size_t least, std::size_t most);
std::string line(std::size_t least, std::size_t most);
std::string json_pointer();
std::string origin();
std::string route_path();
std::string caller();
std::string key_source();
std::string status_or_class();
std::string plain_name();
std::string store();
std::string network();
std::string same_hosts();
std::string address();
std::string listener();
std::string base_path();
std::string health_path();
std::string host_rule();
std::string route_host();
std::string server();
std::string upstream_url();
}  // namespace syntax

}  // namespace once::config
