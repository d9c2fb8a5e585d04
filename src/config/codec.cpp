#include "config/codec.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>

#include "base/text.hpp"
#include "config/secret.hpp"
#include "core/fields.hpp"
#include "core/headers.hpp"
#include "core/outcome.hpp"
#include "store/catalog/catalog.hpp"
#include "store/server/store_url.hpp"

namespace once::config {

namespace {

constexpr std::array<std::array<std::string_view, 3>, 2> truth_values = {
    {{"on", "yes", "true"}, {"off", "no", "false"}}};

std::string identity(const std::string& text) {
  return text;
}

// A value within a range. Only parsing and formatting differ between types.
template <class T, class Parse, class Format>
Codec<T> ranged(const std::string& expected, Range<T> range, Parse parse, Format format, Syntax syntax) {
  const std::string least = format(range.least);
  const std::string most = format(range.most);
  return {
      .expected = expected,
      .range = fmt::format("{} to {}", least, most),
      .parse = [=](const std::string& text) -> Parsed<T> {
        const auto value = parse(text);
        if (!value) return not_expected(expected, text);
        if (*value < range.least || *value > range.most) {
          return std::unexpected(fmt::format("must be from {} to {}, got \"{}\"", least, most, text));
        }
        return static_cast<T>(*value);
      },
      .format = format,
      .syntax = std::move(syntax),
  };
}

// The same, or the word "auto", which stands for 0.
template <class T>
Codec<T> auto_or_ranged(Range<T> range) {
  const auto parse = [](std::string_view text) -> std::optional<std::uint64_t> { return parse_number(text); };
  Codec<T> number = ranged<T>(
      "auto or a whole number", range, parse, [](T n) { return fmt::to_string(n); },
      number_syntax(range.least, range.most));
  number.syntax.pattern = fmt::format("^(?:auto|{})$", digits_between(range.least, range.most));
  return {
      .expected = number.expected,
      .range = number.range,
      .parse = [inner =
                    number.parse](const std::string& text) { return text == "auto" ? Parsed<T>(T{0}) : inner(text); },
      .format = [](T n) { return n == 0 ? std::string("auto") : fmt::to_string(n); },
      .syntax = number.syntax,
  };
}

// Text that passes a test.
template <class Test>
Codec<std::string> tested(const std::string& expected, Test test, Syntax syntax) {
  return {
      .expected = expected,
      .range = "",
      .parse = [=](const std::string& text) -> Parsed<std::string> {
        if (!test(text)) return not_expected(expected, text);
        return text;
      },
      .format = identity,
      .syntax = std::move(syntax),
  };
}

bool is_visible(char c) {
  return c > ' ' && c < 0x7F;
}

bool is_control(char c) {
  return (c >= 0 && c < ' ') || c == 0x7F;
}

// As in header and cookie names.
bool is_short_token(std::string_view text) {
  return text.size() <= 100 && is_token(text);
}

// scheme://host[:port] as browsers send it: in lower case, without the scheme's default port.
bool is_origin(std::string_view text) {
  if (text == "*") return true;
  const std::size_t mark = text.find("://");
  if (mark == 0 || mark == std::string_view::npos || text.size() > 300) return false;
  const std::string_view scheme = text.substr(0, mark);
  const std::string_view rest = text.substr(mark + 3);
  const auto lower = [](char c) { return is_visible(c) && (c < 'A' || c > 'Z'); };
  if (rest.empty() || !std::ranges::all_of(text, lower)) return false;
  if (rest.find_first_of("/?#@*,\"\\") != std::string_view::npos) return false;
  return !(scheme == "https" && rest.ends_with(":443")) && !(scheme == "http" && rest.ends_with(":80"));
}

bool is_json_pointer(std::string_view text) {
  if (!text.starts_with('/') || text.size() > 1000) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (is_control(text[i]) || (text[i] == '~' && next != '0' && next != '1')) return false;
  }
  return true;
}

// A claim's name is any text, often a URL. One that begins with a slash is a path to a nested claim.
bool is_claim(std::string_view text) {
  return !text.empty() && text.size() <= 200 && std::ranges::all_of(text, is_visible) &&
         (!text.starts_with('/') || is_json_pointer(text));
}

std::string format_caller(const CallerSource& source) {
  switch (source.kind) {
    case CallerSource::Kind::header: return "header:" + source.name;
    case CallerSource::Kind::proxy_header: return "proxy-header:" + source.name;
    case CallerSource::Kind::cookie: return "cookie:" + source.name;
    case CallerSource::Kind::jwt: return "jwt:" + source.name;
    case CallerSource::Kind::mtls_subject: return "mtls:subject";
    case CallerSource::Kind::client_ip: return "client-ip";
  }
  return "";
}

// Refuses segments that no normalized path (core/path.hpp) contains.
bool is_pattern_segment(std::string_view segment, bool last) {
  if (segment.empty()) return last;
  if (segment == "." || segment == "..") return false;
  if (segment == "*" || (segment == "**" && last)) return true;
  if (segment.starts_with('{') && segment.ends_with('}')) {
    const std::string_view name = segment.substr(1, segment.size() - 2);
    return is_short_token(name) && !name.contains('*');
  }
  return segment.find_first_of("*{}") == std::string_view::npos;
}

bool is_pattern(std::string_view text) {
  if (!text.starts_with('/') || text.size() > 1000 || text.find_first_of("?#") != std::string_view::npos) return false;
  if (!std::ranges::all_of(text, is_visible)) return false;
  const auto segments = split(text.substr(1), '/');
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (!is_pattern_segment(segments[i], i + 1 == segments.size())) return false;
  }
  return true;
}

bool is_file_path(std::string_view text) {
  return text.size() <= 4096 && std::ranges::none_of(text, is_control);
}

}  // namespace

std::unexpected<std::string> not_expected(std::string_view expected, std::string_view got) {
  // Longer values, perhaps pasted by mistake, are cut so that they do not flood the terminal.
  constexpr std::size_t shown = 80;
  const bool cut = got.size() > shown;
  return std::unexpected(
      got.empty() ? fmt::format("expected {}, got nothing", expected)
                  : fmt::format("expected {}, got \"{}{}\"", expected, got.substr(0, shown), cut ? "…" : ""));
}

std::string or_list(const std::vector<std::string_view>& words) {
  if (words.size() < 2) return fmt::format("{}", fmt::join(words, ""));
  return fmt::format("{} or {}", fmt::join(words.begin(), words.end() - 1, ", "), words.back());
}

std::string_view same_word(std::string_view text, const std::vector<std::string_view>& words) {
  if (std::ranges::find(words, text) != words.end()) return text;
  for (const auto& spellings : truth_values) {
    if (std::ranges::find(spellings, text) == spellings.end()) continue;
    const auto meant = std::ranges::find_first_of(words, spellings);
    if (meant != words.end()) return *meant;
  }
  return text;
}

std::vector<std::string_view> with_spellings(const std::vector<std::string_view>& words) {
  std::vector<std::string_view> all = words;
  for (const auto& spellings : truth_values) {
    if (std::ranges::find_first_of(words, spellings) == words.end()) continue;
    std::ranges::copy_if(spellings, std::back_inserter(all),
                         [&](std::string_view word) { return std::ranges::find(words, word) == words.end(); });
  }
  return all;
}

std::string suggestion(std::string_view word, const std::vector<std::string_view>& words) {
  const auto close = nearest(word, words);
  return close ? fmt::format("; did you mean \"{}\"?", *close) : "";
}

Codec<Duration> duration_codec(Range<Duration> range) {
  return ranged<Duration>("a duration such as 24h", range, parse_duration, format_duration,
                          duration_syntax(range.least, range.most));
}

Codec<std::size_t> size_codec(Range<std::size_t> range) {
  return ranged<std::size_t>("a size such as 1MiB", range, parse_size, format_size,
                             size_syntax(range.least, range.most));
}

Codec<std::size_t> number_codec(Range<std::size_t> range) {
  return ranged<std::size_t>(
      "a whole number", range, parse_number, [](std::size_t n) { return fmt::to_string(n); },
      number_syntax(range.least, range.most));
}

Codec<unsigned> threads_codec() {
  return auto_or_ranged<unsigned>({1, 256});
}

Codec<std::size_t> auto_or_number_codec(Range<std::size_t> range) {
  return auto_or_ranged<std::size_t>(range);
}

Codec<bool> yes_no_codec() {
  return choice_codec<bool>({{"yes", true}, {"no", false}});
}

Codec<std::string> header_name_codec() {
  return tested("a header name", is_short_token, text_syntax(syntax::header_name()));
}

Codec<std::string> protocol_codec() {
  return tested("a protocol such as websocket", is_short_token, text_syntax(syntax::header_name()));
}

Codec<std::string> origin_codec() {
  return tested("an origin such as https://app.example, in lower case and without a path, or *", is_origin,
                string_syntax(syntax::origin()));
}

Codec<std::string> json_pointer_codec() {
  return tested("a JSON pointer such as /timestamp", is_json_pointer, string_syntax(syntax::json_pointer()));
}

Codec<std::string> word_codec(std::size_t most) {
  return tested(
      fmt::format("a word of at most {} visible ASCII characters", most),
      [most](const std::string& text) {
        return !text.empty() && text.size() <= most && std::ranges::all_of(text, is_visible);
      },
      text_syntax(syntax::visible(1, most)));
}

Codec<std::string> optional_word_codec(std::size_t most) {
  return tested(
      fmt::format("a word of at most {} visible ASCII characters", most),
      [most](const std::string& text) { return text.size() <= most && std::ranges::all_of(text, is_visible); },
      text_syntax(syntax::visible(0, most)));
}

Codec<std::string> path_codec() {
  return tested(
      "a path", [](const std::string& text) { return !text.empty() && is_file_path(text); },
      text_syntax(syntax::line(1, 4096)));
}

Codec<std::string> optional_path_codec() {
  return tested("a path", is_file_path, text_syntax(syntax::line(0, 4096)));
}

Codec<std::string> upstream_name_codec() {
  return tested(
      "the name of an upstream",
      [](const std::string& text) { return text.size() <= 64 && std::ranges::all_of(text, is_visible); },
      text_syntax(syntax::visible(0, 64)));
}

Codec<std::string> pattern_codec() {
  return tested("a path such as /v1/charges/** (* or {name} for one segment, ** at the end for any rest)", is_pattern,
                string_syntax(syntax::route_path()));
}

Codec<Method> method_codec() {
  Choices<Method> choices;
  for (const Method method : {Method::get, Method::head, Method::post, Method::put, Method::patch, Method::delete_,
                              Method::options, Method::query}) {
    choices.emplace_back(method_name(method), method);
  }
  return choice_codec<Method>(choices);
}

Codec<CallerSource> caller_codec() {
  using Kind = CallerSource::Kind;
  const std::string expected = "header:NAME, proxy-header:NAME, cookie:NAME, jwt:CLAIM, mtls:subject or client-ip";
  return {
      .expected = expected,
      .range = "",
      .parse = [=](const std::string& text) -> Parsed<CallerSource> {
        const std::size_t colon = std::min(text.find(':'), text.size());
        const std::string_view kind = std::string_view(text).substr(0, colon);
        const std::string name = text.substr(std::min(colon + 1, text.size()));
        if (text == "client-ip") return CallerSource{.kind = Kind::client_ip, .name = ""};
        if (text == "mtls:subject") return CallerSource{.kind = Kind::mtls_subject, .name = ""};
        if (kind == "header" && is_short_token(name)) return CallerSource{.kind = Kind::header, .name = name};
        if (kind == "proxy-header" && is_short_token(name))
          return CallerSource{.kind = Kind::proxy_header, .name = name};
        if (kind == "cookie" && is_short_token(name)) return CallerSource{.kind = Kind::cookie, .name = name};
        if (kind == "jwt" && is_claim(name)) return CallerSource{.kind = Kind::jwt, .name = name};
        return not_expected(expected, text);
      },
      .format = format_caller,
      .syntax = string_syntax(syntax::caller()),
  };
}

Codec<KeySource> key_source_codec() {
  using Kind = KeySource::Kind;
  const std::string expected = "header:NAME or json:/POINTER";
  return {
      .expected = expected,
      .range = "",
      .parse = [=](const std::string& text) -> Parsed<KeySource> {
        const std::size_t colon = std::min(text.find(':'), text.size());
        const std::string_view kind = std::string_view(text).substr(0, colon);
        const std::string name = text.substr(std::min(colon + 1, text.size()));
        if (kind == "header" && is_short_token(name)) return KeySource{.kind = Kind::header, .name = name};
        if (kind == "json" && is_json_pointer(name)) return KeySource{.kind = Kind::json, .name = name};
        return not_expected(expected, text);
      },
      .format =
          [](const KeySource& source) {
            return fmt::format("{}:{}", source.kind == Kind::header ? "header" : "json", source.name);
          },
      .syntax = string_syntax(syntax::key_source()),
  };
}

Codec<std::string> secret_source_codec() {
  const auto is_shown = [](std::string_view text) { return text.starts_with("file:") || text.starts_with("env:"); };
  constexpr std::string_view expected = "file:PATH, env:NAME or the secret itself, in visible characters";
  return {
      .expected = std::string(expected),
      .range = "",
      .parse = [=](const std::string& text) -> Parsed<std::string> {
        const std::string_view source = std::string_view(text).substr(is_shown(text) ? text.find(':') + 1 : 0);
        const bool visible = std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
        if ((is_shown(text) && source.empty()) || (!is_shown(text) && !visible)) {
          return std::unexpected(fmt::format("expected {}", expected));
        }
        if (!text.empty() && !is_shown(text) && text.size() < shortest_secret) {
          return std::unexpected(
              fmt::format("it has {} bytes, at least {} are needed; make one with: openssl rand -hex 32", text.size(),
                          shortest_secret));
        }
        return text;
      },
      .format = [=](const std::string& text) { return text.empty() || is_shown(text) ? text : "(not shown)"; },
      .syntax = text_syntax(fmt::format("^(|(file|env):.+|[!-~]{{{},}})$", shortest_secret)),
  };
}

Codec<std::string> store_codec() {
  const std::string expected = store_forms();
  return {
      .expected = expected,
      .range = "",
      .parse = [=](const std::string& text) -> Parsed<std::string> {
        const StoreType* const type = find_store(text);
        if (type != nullptr && type->place == StorePlace::server) {
          const auto url = parse_store_url(text);
          if (!url) return std::unexpected(url.error().detail);
        }
        if (type != nullptr) return text;
        // YAML reads a bare "memory:" as the beginning of a map, so the colon may be left out.
        if (find_store(text + ":") != nullptr) return text + ":";
        const std::string_view kind = std::string_view(text).substr(0, text.find(':'));
        std::vector<std::string_view> known;
        for (const StoreType* each : store_types()) known.push_back(each->name);
        return std::unexpected(not_expected(expected, without_password(text)).error() + suggestion(kind, known));
      },
      .format = [](const std::string& url) { return without_password(url); },
      .syntax = string_syntax(syntax::store()),
  };
}

Parsed<MethodSet> parse_methods(const std::vector<std::string>& values) {
  const Codec<Method> codec = method_codec();
  MethodSet set;
  for (const std::string& value : values) {
    const auto method = codec.parse(value);
    if (!method) return std::unexpected(method.error());
    set.set(static_cast<std::size_t>(*method));
  }
  return set;
}

std::vector<std::string> format_methods(const MethodSet& methods) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < methods.size(); ++i) {
    if (methods.test(i)) words.emplace_back(method_name(static_cast<Method>(i)));
  }
  return words;
}

Parsed<StatusSet> parse_statuses(const std::vector<std::string>& values) {
  StatusSet set;
  for (const std::string& value : values) {
    const bool whole_class = value.size() == 3 && value.ends_with("xx") && value[0] >= '2' && value[0] <= '5';
    const auto code = parse_number(value);
    if (whole_class) {
      const int first = (value[0] - '0') * 100;
      set |= statuses({{first, first + 99}});
    } else if (code && *code >= 200 && *code <= 599) {
      set.set(*code);
    } else {
      return not_expected("statuses from 200 to 599 such as 404, or classes such as 2xx", value);
    }
  }
  return set;
}

std::vector<std::string> format_statuses(const StatusSet& set) {
  std::vector<std::string> words;
  for (int first = 200; first < 600; first += 100) {
    const StatusSet whole_class = statuses({{first, first + 99}});
    if ((set & whole_class) == whole_class) {
      words.push_back(fmt::format("{}xx", first / 100));
      continue;
    }
    for (int code = first; code < first + 100; ++code) {
      if (contains(set, code)) words.push_back(fmt::to_string(code));
    }
  }
  return words;
}

}  // namespace once::config
