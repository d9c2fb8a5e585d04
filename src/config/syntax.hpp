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

  std::vector<std::string> words;  // any of these words in any spelling
  std::string pattern;             // or text that matches this regular expression (ECMA-262); empty without words:
                                   // anything
  std::optional<Numbers> numbers;  // also accepted as a YAML number
  bool any_scalar = true;          // texts that YAML reads as a number or a truth value are accepted
};

// A regular expression without anchors for decimal numbers from `least` to `most`, with any leading zeros.
std::string digits_between(std::uint64_t least, std::uint64_t most);

Syntax words_syntax(const std::vector<std::string_view>& words);
Syntax text_syntax(std::string pattern);    // also accepts texts that look like numbers
Syntax string_syntax(std::string pattern);  // refuses texts that look like numbers
Syntax number_syntax(std::uint64_t least, std::uint64_t most);
Syntax size_syntax(std::uint64_t least, std::uint64_t most);
Syntax duration_syntax(Duration least, Duration most);

// Regular expressions for values that C++ code checks.
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
