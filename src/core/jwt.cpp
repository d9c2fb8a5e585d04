#include "core/jwt.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "base/base64.hpp"
#include "core/json_pointer.hpp"
#include "core/json_text.hpp"
#include "core/json_tree.hpp"

namespace once::core {

namespace {

// The difference between clocks that is allowed.
constexpr Duration leeway = std::chrono::seconds(30);

using Outcome = std::expected<void, TokenFault>;

// A NumericDate: seconds since 1970, possibly with a fraction. Later dates are cut to the year 9999.
std::optional<Time> date_of(const JsonTree& value) {
  constexpr double latest = 253'402'300'799.0;
  const JsonTree::Number* number = value.number();
  if (number == nullptr) return std::nullopt;
  double seconds = 0;
  const std::string& text = number->text;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return Time(Duration(static_cast<std::int64_t>(std::floor(std::clamp(seconds, -latest, latest) * 1000))));
}

// An absent date is valid, another type is not.
Outcome read_date(const JsonTree& payload, std::string_view name, std::optional<Time>& out) {
  const JsonTree* value = payload.find(name);
  if (value == nullptr) return {};
  out = date_of(*value);
  if (!out) return std::unexpected(TokenFault::bad_payload);
  return {};
}

bool names_us(const JsonTree* audience, const std::vector<std::string>& ours) {
  const auto is_ours = [&ours](const JsonTree& value) {
    return value.string() != nullptr && std::ranges::find(ours, *value.string()) != ours.end();
  };
  if (audience == nullptr) return false;
  if (audience->array() != nullptr) return std::ranges::any_of(*audience->array(), is_ours);
  return is_ours(*audience);
}

// A claim that identifies a caller is a string or a number; null counts as absent.
std::expected<std::optional<std::string>, TokenFault> read_claim(const JsonTree* value) {
  if (value == nullptr || value->is_null()) return std::nullopt;
  std::string text;
  if (value->string() != nullptr) {
    append_json_string(text, *value->string());
  } else if (value->number() != nullptr) {
    text = value->number()->canonical;
  } else {
    return std::unexpected(TokenFault::unusable_claim);
  }
  if (text.size() > max_claim_bytes) return std::unexpected(TokenFault::unusable_claim);
  return text;
}

}  // namespace

std::string_view describe(TokenFault fault) {
  switch (fault) {
    case TokenFault::too_large: return "it is larger than 8 KiB";
    case TokenFault::malformed: return "it is not three base64url parts separated by dots";
    case TokenFault::bad_header: return "its header is not a JSON object with an alg, or has a duplicate member";
    case TokenFault::critical: return "its header has crit, and no extension is supported";
    case TokenFault::unknown_key: return "there is no key for its kid";
    case TokenFault::wrong_algorithm: return "there is no key for its alg";
    case TokenFault::bad_signature: return "its signature does not match";
    case TokenFault::bad_payload:
      return "its payload is not a JSON object with valid claims, or has a duplicate member";
    case TokenFault::no_expiry: return "it has no exp";
    case TokenFault::expired: return "it has expired";
    case TokenFault::not_yet_valid: return "it is not valid yet: nbf is in the future";
    case TokenFault::issued_later: return "it was issued in the future: iat";
    case TokenFault::wrong_issuer: return "its iss is not the trusted issuer";
    case TokenFault::wrong_audience: return "its aud does not include this service";
    case TokenFault::unusable_claim:
      return "the claim that identifies the caller is not a string or a number, or is too long";
  }
  return "";
}

struct JwtVerifier::Parts {
  std::string_view header;  // encoded
  std::string_view signed_text;
  std::string payload;
  std::string signature;
};

struct JwtVerifier::Header {
  std::string algorithm;
  std::optional<std::string> key_id;
};

JwtVerifier::JwtVerifier(const std::vector<JwtKey>& keys, JwtRules rules, std::vector<std::string> claims)
    : rules_(std::move(rules)), claims_(std::move(claims)) {
  // Try keys without a name first: tokens that need a named key usually say which.
  for (const bool named : {false, true}) {
    for (const JwtKey& key : keys) {
      if (key.id.empty() != named) keys_.push_back(key);
    }
  }
  for (const std::string& claim : claims_) {
    auto tokens = claim.starts_with('/') ? pointer_tokens(claim) : std::nullopt;
    claim_tokens_.push_back(tokens ? *std::move(tokens) : std::vector{claim});
  }
}

std::optional<std::size_t> JwtVerifier::index_of(std::string_view claim) const {
  const auto found = std::ranges::find(claims_, claim);
  if (found == claims_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - claims_.begin());
}

JwtVerifier::Verified JwtVerifier::verify(std::string_view token, Time now) const {
  if (token.size() > max_token_bytes) return std::unexpected(TokenFault::too_large);
  const auto parts = split(token);
  if (!parts) return std::unexpected(parts.error());
  const auto header = read_header(parts->header);
  if (!header) return std::unexpected(header.error());
  // Check the signature before the payload: unsigned content must not be used.
  if (const auto genuine = check_signature(*header, *parts); !genuine) return std::unexpected(genuine.error());
  Verified verified = read_payload(parts->payload);
  if (!verified) return verified;
  if (const auto in_time = timely(**verified, now); !in_time) return std::unexpected(in_time.error());
  return verified;
}

std::expected<JwtVerifier::Parts, TokenFault> JwtVerifier::split(std::string_view token) {
  const std::size_t first = token.find('.');
  const std::size_t second = first == std::string_view::npos ? first : token.find('.', first + 1);
  if (second == std::string_view::npos) return std::unexpected(TokenFault::malformed);
  auto payload = from_base64url(token.substr(first + 1, second - first - 1));
  // A further dot is not valid base64url, so encrypted tokens, which have five parts, are refused here.
  auto signature = from_base64url(token.substr(second + 1));
  if (!payload || !signature) return std::unexpected(TokenFault::malformed);
  return Parts{.header = token.substr(0, first),
               .signed_text = token.substr(0, second),
               .payload = *std::move(payload),
               .signature = *std::move(signature)};
}

std::expected<JwtVerifier::Header, TokenFault> JwtVerifier::read_header(std::string_view encoded) {
  const auto json = from_base64url(encoded);
  if (!json) return std::unexpected(TokenFault::malformed);
  const auto tree = JsonTree::parse(*json);
  const JsonTree* algorithm = tree ? tree->find("alg") : nullptr;
  if (algorithm == nullptr || algorithm->string() == nullptr) return std::unexpected(TokenFault::bad_header);
  if (tree->find("crit") != nullptr) return std::unexpected(TokenFault::critical);
  Header header{.algorithm = *algorithm->string(), .key_id = std::nullopt};
  if (const JsonTree* id = tree->find("kid")) {
    if (id->string() == nullptr) return std::unexpected(TokenFault::bad_header);
    header.key_id = *id->string();
  }
  return header;
}

// A token that names its key is checked with that key; if no key has the name, with keys that have none. Only a few
// keys are tried, whatever the token says.
std::expected<void, TokenFault> JwtVerifier::check_signature(const Header& header, const Parts& parts) const {
  const bool named =
      header.key_id && std::ranges::any_of(keys_, [&](const JwtKey& key) { return key.id == *header.key_id; });
  TokenFault fault = header.key_id ? TokenFault::unknown_key : TokenFault::wrong_algorithm;
  std::size_t tried = 0;
  for (const JwtKey& key : keys_) {
    const bool meant = named ? key.id == *header.key_id : !header.key_id || key.id.empty();
    if (!meant) continue;
    if (name_of(key.key.algorithm()) != header.algorithm) {
      if (fault == TokenFault::unknown_key) fault = TokenFault::wrong_algorithm;
      continue;
    }
    if (key.key.verifies(parts.signed_text, parts.signature)) return {};
    fault = TokenFault::bad_signature;
    if (++tried == max_tried_keys) break;
  }
  return std::unexpected(fault);
}

JwtVerifier::Verified JwtVerifier::read_payload(std::string_view json) const {
  const auto tree = JsonTree::parse(json);
  if (!tree || tree->object() == nullptr) return std::unexpected(TokenFault::bad_payload);
  std::optional<Time> expiry;
  std::optional<Time> not_before;
  std::optional<Time> issued;
  for (const auto& [name, date] : {std::pair("exp", &expiry), {"nbf", &not_before}, {"iat", &issued}}) {
    if (const auto read = read_date(*tree, name, *date); !read) return std::unexpected(read.error());
  }
  if (!expiry && rules_.expiry == Required::yes) return std::unexpected(TokenFault::no_expiry);

  VerifiedToken token;
  if (expiry) token.until = *expiry + leeway;
  if (not_before) token.not_before = *not_before - leeway;
  if (issued) token.issued = *issued - leeway;
  const JsonTree* issuer = tree->find("iss");
  if (issuer != nullptr && issuer->string() == nullptr) return std::unexpected(TokenFault::bad_payload);
  if (issuer != nullptr) token.issuer = *issuer->string();
  if (!rules_.issuer.empty() && token.issuer != rules_.issuer) return std::unexpected(TokenFault::wrong_issuer);
  if (!rules_.audience.empty() && !names_us(tree->find("aud"), rules_.audience)) {
    return std::unexpected(TokenFault::wrong_audience);
  }
  for (const std::vector<std::string>& way : claim_tokens_) {
    auto claim = read_claim(tree->find(way));
    if (!claim) return std::unexpected(claim.error());
    token.claims.push_back(*std::move(claim));
  }
  return std::make_shared<const VerifiedToken>(std::move(token));
}

std::expected<void, TokenFault> JwtVerifier::timely(const VerifiedToken& token, Time now) {
  if (now >= token.until) return std::unexpected(TokenFault::expired);
  if (now < token.not_before) return std::unexpected(TokenFault::not_yet_valid);
  if (now < token.issued) return std::unexpected(TokenFault::issued_later);
  return {};
}

}  // namespace once::core
