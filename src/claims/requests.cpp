#include "claims/requests.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "claims/json_members.hpp"
#include "core/json_canonical.hpp"
#include "core/json_text.hpp"

namespace once::claims {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t longest_name = 255;
constexpr Duration longest_ttl = 24h * 365;
constexpr Duration longest_lease = 24h;
constexpr std::uint64_t highest_number = 1'000'000'000;  // of a piece of progress
constexpr std::uint64_t highest_fence = (std::uint64_t{1} << 63U) - 1;

struct Limits {
  Duration least;
  Duration most;
};

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > longest_name) return false;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t bytes = utf8_sequence(rest);
    const auto first = static_cast<unsigned char>(rest.front());
    if (bytes == 0 || first < ' ' || first == 0x7F) return false;
    rest.remove_prefix(bytes);
  }
  return true;
}

// Takes the members of a body one by one; members left at the end are unknown ones. The first mistake is reported.
class Members {
 public:
  // An empty body counts as an empty object.
  Members(std::string_view body, std::initializer_list<std::string_view> known) : known_(known) {
    if (body.empty()) return;
    auto members = json_members(body);
    if (!members) {
      fail("The body is not a JSON object (UTF-8, no duplicate names, at most 128 levels).");
      return;
    }
    members_ = std::move(*members);
    for (const JsonMember& member : members_) {
      if (std::ranges::find(known_, member.name) == known_.end()) {
        const auto close = nearest(member.name, known_);
        fail(fmt::format("Unknown member \"{}\"{}", member.name.substr(0, 64),
                         close ? fmt::format("; did you mean \"{}\"?", *close) : "."));
      }
    }
  }

  void fail(std::string why) {
    if (error_.empty()) error_ = std::move(why);
  }
  const std::string& error() const { return error_; }

  std::optional<std::string_view> raw(std::string_view name) const {
    const auto found = std::ranges::find(members_, name, &JsonMember::name);
    if (found == members_.end()) return std::nullopt;
    return found->value;
  }

  std::optional<std::string> text(std::string_view name) {
    const auto value = raw(name);
    if (!value) return std::nullopt;
    auto string = json_string(*value);
    if (!string) fail(fmt::format("\"{}\" must be a string.", name));
    return string;
  }

  std::optional<std::string> name(std::string_view member) {
    auto string = text(member);
    if (string && !is_name(*string)) {
      fail(fmt::format("\"{}\" must have 1 to {} bytes, and no control characters.", member, longest_name));
    }
    return string;
  }

  std::optional<Duration> duration(std::string_view name, const Limits& limits) {
    const auto string = text(name);
    if (!string) return std::nullopt;
    const auto value = parse_duration(*string);
    if (!value || *value < limits.least || *value > limits.most) {
      fail(fmt::format("\"{}\" must be a duration from {} to {}, such as \"30s\".", name, format_duration(limits.least),
                       format_duration(limits.most)));
    }
    return value;
  }

  // An integer, at most `most`.
  std::optional<std::uint64_t> number(std::string_view name, std::uint64_t most) {
    const auto value = raw(name);
    if (!value) return std::nullopt;
    const auto number = parse_number(*value);
    if (!number || *number > most) fail(fmt::format("\"{}\" must be a whole number, at most {}.", name, most));
    return number;
  }

  std::optional<std::string> canonical(std::string_view name) {
    const auto value = raw(name);
    if (!value) return std::nullopt;
    auto text = canonical_json(*value);
    if (!text) {
      fail(fmt::format("\"{}\" has no canonical form: a duplicate name, a lone surrogate, or more than {} levels.",
                       name, max_json_depth));
    }
    return text;
  }

 private:
  std::vector<std::string_view> known_;
  std::vector<JsonMember> members_;
  std::string error_;
};

template <class T>
Read<T> checked(const Members& members, T value) {
  if (!members.error().empty()) return std::unexpected(members.error());
  return value;
}

Duration wait_of(Members& members, Duration max_wait) {
  return std::min(members.duration("wait", {0ms, longest_lease}).value_or(Duration()), max_wait);
}

Named name_of_operation(Members& members, Duration max_wait) {
  Named name;
  const auto scope = members.name("scope");
  const auto key = members.name("key");
  const auto inputs = members.canonical("inputs");
  if (!scope) members.fail("\"scope\" is missing.");
  if (members.raw("key").has_value() == members.raw("inputs").has_value()) {
    members.fail("Exactly one of \"key\" and \"inputs\" is required.");
  }
  name.scope = scope.value_or("");
  name.kind = inputs ? KeyKind::inputs : KeyKind::given;
  name.key = inputs ? *inputs : key.value_or("");
  name.wait = wait_of(members, max_wait);
  return name;
}

OnUnknown on_unknown_of(Members& members) {
  const auto word = members.text("on_unknown");
  if (!word || *word == "takeover") return OnUnknown::takeover;
  if (*word == "retry") return OnUnknown::retry;
  if (*word != "hold") members.fail("\"on_unknown\" must be \"takeover\", \"retry\" or \"hold\".");
  return OnUnknown::hold;
}

std::optional<Nonce> nonce_of(Members& members) {
  const auto text = members.text("nonce");
  if (!text) return std::nullopt;
  const auto bytes = from_hex(*text);
  Nonce nonce;
  if (!bytes || bytes->size() != Nonce::size) {
    members.fail("\"nonce\" must be 32 hex digits.");
    return std::nullopt;
  }
  std::memcpy(nonce.bytes.data(), bytes->data(), Nonce::size);
  return nonce;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Decodes application/x-www-form-urlencoded, the encoding of queries.
std::optional<std::string> decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

using QueryParameters = std::map<std::string, std::string, std::less<>>;

// nullopt: a parameter is unknown, repeated or badly encoded.
std::optional<QueryParameters> parameters_of(std::string_view query, std::initializer_list<std::string_view> known) {
  QueryParameters parameters;
  for (const std::string_view pair : split(query, '&')) {
    if (pair.empty()) continue;
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const std::string_view name = pair.substr(0, equals);
    auto value = decoded(pair.substr(std::min(equals + 1, pair.size())));
    if (!value || std::ranges::find(known, name) == known.end()) return std::nullopt;
    if (!parameters.emplace(name, *std::move(value)).second) return std::nullopt;
  }
  return parameters;
}

Read<Named> name_in_query(const QueryParameters& given, Duration max_wait) {
  const auto scope = given.find("scope");
  const auto key = given.find("key");
  if (scope == given.end() || key == given.end() || !is_name(scope->second) || !is_name(key->second)) {
    return std::unexpected(fmt::format("scope and key are required, each of 1 to {} bytes.", longest_name));
  }
  Named name;
  if (const auto wait = given.find("wait"); wait != given.end()) {
    const auto limit = parse_duration(wait->second);
    if (!limit) return std::unexpected("wait must be a duration such as 30s.");
    name.wait = std::min(*limit, max_wait);
  }
  name.scope = scope->second;
  name.key = key->second;
  return name;
}

ProgressPlace place_of(std::optional<std::uint64_t> from, std::optional<std::uint64_t> fence) {
  ProgressPlace place{.from = static_cast<std::uint32_t>(from.value_or(0))};
  if (fence) place.fence = Fence{*fence};
  return place;
}

}  // namespace

Read<ClaimAsked> read_claim(std::string_view body, Duration max_wait) {
  Members members(
      body, {"scope", "key", "inputs", "fingerprint", "ttl", "lease", "takeover_after", "on_unknown", "wait", "nonce"});
  ClaimAsked asked;
  asked.name = name_of_operation(members, max_wait);
  asked.fingerprint = members.canonical("fingerprint");
  asked.terms.owner = Owner::outside;
  asked.terms.ttl = members.duration("ttl", {1s, longest_ttl}).value_or(asked.terms.ttl);
  asked.terms.lease = members.duration("lease", {1s, longest_lease}).value_or(default_claim_lease);
  asked.terms.takeover_after =
      members.duration("takeover_after", {0ms, longest_ttl}).value_or(asked.terms.takeover_after);
  asked.terms.on_unknown = on_unknown_of(members);
  asked.nonce = nonce_of(members);
  if (asked.terms.lease >= asked.terms.ttl) members.fail("\"lease\" must be shorter than \"ttl\".");
  return checked(members, std::move(asked));
}

Read<Named> read_lookup(std::string_view body, Duration max_wait) {
  Members members(body, {"scope", "key", "inputs", "wait"});
  Named name = name_of_operation(members, max_wait);
  return checked(members, std::move(name));
}

Read<Named> read_lookup_query(std::string_view query, Duration max_wait) {
  const auto given = parameters_of(query, {"scope", "key", "wait"});
  if (!given) {
    return std::unexpected("The query parameters are scope, key and wait, each once and percent-encoded.");
  }
  return name_in_query(*given, max_wait);
}

Read<FollowAsked> read_follow(std::string_view body, Duration max_wait) {
  Members members(body, {"scope", "key", "inputs", "wait", "from", "fence"});
  FollowAsked asked;
  asked.name = name_of_operation(members, max_wait);
  asked.place = place_of(members.number("from", highest_number), members.number("fence", highest_fence));
  return checked(members, std::move(asked));
}

Read<FollowAsked> read_follow_query(std::string_view query, Duration max_wait) {
  const auto given = parameters_of(query, {"scope", "key", "wait", "from", "fence"});
  if (!given) {
    return std::unexpected("The query parameters are scope, key, wait, from and fence, each once and percent-encoded.");
  }
  auto name = name_in_query(*given, max_wait);
  if (!name) return std::unexpected(name.error());
  const auto from = parse_number(given->contains("from") ? given->at("from") : "0");
  const auto fence = given->contains("fence") ? parse_number(given->at("fence")) : std::nullopt;
  if (!from || *from > highest_number || (given->contains("fence") && (!fence || *fence > highest_fence))) {
    return std::unexpected("from and fence must be whole numbers.");
  }
  return FollowAsked{.name = *std::move(name), .place = place_of(from, fence)};
}

Read<std::optional<Duration>> read_renew(std::string_view body) {
  Members members(body, {"lease"});
  const std::optional<Duration> lease = members.duration("lease", {1s, longest_lease});
  return checked(members, lease);
}

Read<SucceedAsked> read_succeed(std::string_view body) {
  Members members(body, {"value", "ttl"});
  SucceedAsked asked;
  const auto value = members.raw("value");
  if (!value) members.fail("\"value\" is missing; it may be any JSON value, including null.");
  asked.value = value.value_or("");
  asked.ttl = members.duration("ttl", {1s, longest_ttl});
  return checked(members, asked);
}

Read<ProgressAsked> read_progress(std::string_view body) {
  Members members(body, {"number", "data"});
  ProgressAsked asked;
  const auto number = members.number("number", highest_number);
  const auto data = members.raw("data");
  if (!number) members.fail("\"number\" is missing; the first piece of a claim has 0.");
  if (!data) members.fail("\"data\" is missing; it may be any JSON value.");
  asked.number = static_cast<std::uint32_t>(number.value_or(0));
  asked.data = data.value_or("");
  return checked(members, asked);
}

Read<std::string> read_fail(std::string_view body) {
  Members members(body, {"reason"});
  std::string reason = members.text("reason").value_or("");
  if (reason.size() > longest_reason) reason.resize(longest_reason);
  return checked(members, std::move(reason));
}

Read<void> read_release(std::string_view body) {
  const Members members(body, {});
  if (!members.error().empty()) return std::unexpected(members.error());
  return {};
}

}  // namespace once::claims
