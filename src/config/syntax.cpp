#include "config/syntax.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "store/catalog/catalog.hpp"

namespace once::config {

namespace {

// A pattern for the numbers from `first` to `last`, which have equally many digits and differ only in the last ones,
// which take every value: 120 to 199.
std::string same_length(std::uint64_t first, std::uint64_t last) {
  const std::string low = fmt::to_string(first);
  const std::string high = fmt::to_string(last);
  std::string out;
  std::size_t any = 0;
  for (std::size_t i = 0; i < low.size(); ++i) {
    if (low[i] == high[i]) {
      out += low[i];
    } else if (low[i] == '0' && high[i] == '9') {
      ++any;
    } else {
      fmt::format_to(std::back_inserter(out), "[{}-{}]", low[i], high[i]);
    }
  }
  if (any > 0) out += any == 1 ? "[0-9]" : fmt::format("[0-9]{{{}}}", any);
  return out;
}

// The last number that can be reached from `from` by raising one digit, with the digits behind it taking every value.
std::uint64_t end_of_block(std::uint64_t from, std::uint64_t most) {
  std::uint64_t step = 1;
  while (from >= step * 10 && from % (step * 10) == 0 && step * 10 - 1 <= most - from) step *= 10;
  const std::uint64_t digit = from / step % 10;
  const std::uint64_t further = std::min(9 - digit, (most - from + 1) / step - 1);
  return from + step * (further + 1) - 1;
}

std::string with_units(std::uint64_t least, std::uint64_t most, std::span<const Unit> units) {
  std::vector<std::string> parts;
  for (const Unit& unit : units) {
    const std::uint64_t first = least / unit.factor + (least % unit.factor == 0 ? 0 : 1);
    const std::uint64_t last = most / unit.factor;
    if (first <= last) parts.push_back(digits_between(first, last) + std::string(unit.name));
  }
  return fmt::format("^(?:{})$", fmt::join(parts, "|"));
}

}  // namespace

std::string digits_between(std::uint64_t least, std::uint64_t most) {
  std::vector<std::string> parts;
  for (std::uint64_t from = least; from <= most;) {
    const std::uint64_t to = end_of_block(from, most);
    parts.push_back(same_length(from, to));
    from = to + 1;
  }
  return fmt::format("0*(?:{})", fmt::join(parts, "|"));
}

Syntax words_syntax(const std::vector<std::string_view>& words) {
  return {.words = std::vector<std::string>(words.begin(), words.end()), .any_scalar = false};
}

Syntax text_syntax(std::string pattern) {
  return {.pattern = std::move(pattern), .any_scalar = true};
}

Syntax string_syntax(std::string pattern) {
  return {.pattern = std::move(pattern), .any_scalar = false};
}

Syntax number_syntax(std::uint64_t least, std::uint64_t most) {
  return {.pattern = fmt::format("^{}$", digits_between(least, most)),
          .numbers = Syntax::Numbers{.least = least, .most = most},
          .any_scalar = false};
}

Syntax size_syntax(std::uint64_t least, std::uint64_t most) {
  return {.pattern = with_units(least, most, units_of_size()),
          .numbers = Syntax::Numbers{.least = least, .most = most},
          .any_scalar = false};
}

Syntax duration_syntax(Duration least, Duration most) {
  return string_syntax(
      with_units(static_cast<std::uint64_t>(least.count()), static_cast<std::uint64_t>(most.count()), units_of_time()));
}

namespace syntax {

namespace {

constexpr std::string_view token = "[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}";
constexpr std::string_view path_name = "[!#$%&'+.^_`|~0-9A-Za-z-]{1,100}";
constexpr std::string_view host = R"((?:[A-Za-z0-9._-]{1,253}|\[(?=[^\]]*:)[0-9A-Fa-f:.]{1,253}\]))";
constexpr std::string_view socket_path = R"(/[^\u0000-\u001f\u007f]{0,106})";

std::string port(std::uint64_t least) {
  return fmt::format("(?=[0-9]{{1,5}}(?![0-9])){}", digits_between(least, 65535));
}

std::string authority() {
  return fmt::format("{}(?::{})?", host, port(1));
}

}  // namespace

std::string header_name() {
  return fmt::format("^{}$", token);
}

std::string visible(std::size_t least, std::size_t most) {
  return fmt::format("^[!-~]{{{},{}}}$", least, most);
}

std::string line(std::size_t least, std::size_t most) {
  return fmt::format(R"(^[^\u0000-\u001f\u007f]{{{},{}}}$)", least, most);
}

std::string json_pointer() {
  return R"(^(?=.{1,1000}$)/(?:[^~\u0000-\u001f\u007f]|~[01])*$)";
}

std::string origin() {
  return R"(^(?:\*|(?=.{1,300}$)(?!.*://.*://)(?!https://.*:443$)(?!http://.*:80$)[!-@\[-~]+://[!$-)+.0->\[\]-~-]+)$)";
}

std::string route_path() {
  constexpr std::string_view segment = R"((?!\.{{1,2}}(?:/|$))(?:[!"$-)+-.0->@-z|~]+|\*|\{{{}\}}))";
  const std::string one = fmt::format(fmt::runtime(segment), path_name);
  return fmt::format(R"(^(?=.{{1,1000}}$)/(?:{0}/)*(?:{0}|\*\*)?$)", one);
}

std::string caller() {
  return fmt::format(
      R"(^(?:client-ip|mtls:subject|(?:header|proxy-header|cookie):{}|jwt:(?=.{{1,200}}$)(?:[!-.0-~][!-~]*|/(?:[!-}}]|~[01])*))$)",
      token);
}

std::string key_source() {
  return fmt::format(R"(^(?:header:{}|json:(?=.{{1,1000}}$)/(?:[^~\u0000-\u001f\u007f]|~[01])*)$)", token);
}

std::string status_or_class() {
  return fmt::format("^(?:{}|[2-5]xx)$", digits_between(200, 599));
}

std::string plain_name() {
  return "^[A-Za-z0-9_-]{1,64}$";
}

std::string store() {
  std::vector<std::string> forms;
  std::vector<std::string_view> schemes;
  for (const StoreType* type : store_types()) {
    switch (type->place) {
      case StorePlace::none: forms.push_back(fmt::format("{}:?", type->name)); break;
      case StorePlace::folder: forms.push_back(fmt::format("{0}|{0}:.*", type->name)); break;
      case StorePlace::server: {
        schemes.push_back(type->name);
        if (!type->other_scheme.empty()) schemes.push_back(type->other_scheme);
        break;
      }
    }
  }
  return fmt::format("^(?:{}|(?:{})://.*)$", fmt::join(forms, "|"), fmt::join(schemes, "|"));
}

std::string network() {
  return "^(?:unix|[0-9A-Fa-f:.]{2,45}(?:/[0-9]+)?)$";
}

std::string same_hosts() {
  const std::string name = fmt::format("{}(?::{})?", host, port(0));
  return fmt::format(R"(^(?:\*|{}(?: {})+)$)", name, name);
}

std::string address() {
  return fmt::format("^{}:{}$", host, port(0));
}

std::string listener() {
  return fmt::format(R"(^(?:unix:[^\u0000-\u001f\u007f]{{1,107}}|(?!unix:){}:{})$)", host, port(0));
}

std::string base_path() {
  return R"(^(?:/[!"$->@-~]*)?$)";
}

std::string health_path() {
  return R"(^(?:/[!"$-~]*)?$)";
}

std::string host_rule() {
  return fmt::format("^{}(?::{})?$", host, port(0));
}

std::string route_host() {
  return fmt::format(R"(^(?:\*\.)?{}$)", host);
}

std::string server() {
  return fmt::format("^(?:https?://{}|unix:{})$", authority(), socket_path);
}

std::string upstream_url() {
  return fmt::format(R"(^(?:https?://{}(?:/[!"$->@-~]*)?|unix:{})$)", authority(), socket_path);
}

}  // namespace syntax

}  // namespace once::config
