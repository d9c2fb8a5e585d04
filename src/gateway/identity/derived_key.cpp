#include "gateway/identity/derived_key.hpp"

#include <optional>
#include <span>

#include "base/bytes.hpp"
#include "base/sha256.hpp"
#include "core/headers.hpp"
#include "core/json_canonical.hpp"

namespace once::gateway {

namespace {

constexpr std::string_view domain = "once derived key 1";

std::optional<std::string> header_value(const http::RequestHead& head, std::string_view name) {
  std::optional<std::string> value;
  for (const http::Field& field : head.fields) {
    if (!same_name(field.name, name)) continue;
    if (value) return std::nullopt;
    value = field.value;
  }
  return value;
}

// Empty and null members cannot distinguish two requests.
bool is_empty(std::string_view member) {
  return member.ends_with(":null}") || member.ends_with(":\"\"}") || member.ends_with(":{}}") ||
         member.ends_with(":[]}");
}

std::optional<std::string> json_value(std::string_view body, const std::string& pointer) {
  auto member = canonical_json(body, std::span(&pointer, 1));  // {"/pointer":value}
  if (!member || *member == "{}" || is_empty(*member)) return std::nullopt;
  return member;
}

}  // namespace

std::expected<std::string, const KeySource*> derived_key(const KeyPolicy& policy, const http::RequestHead& head,
                                                         std::string_view body) {
  Sha256 hash;
  hash.update_part(domain);
  for (const KeySource& source : policy.derive) {
    const auto value =
        source.kind == KeySource::Kind::header ? header_value(head, source.name) : json_value(body, source.name);
    if (!value || value->empty()) return std::unexpected(&source);
    hash.update_part(text_of(source));
    hash.update_part(*value);
  }
  const auto digest = hash.digest();
  return to_hex(std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

std::string text_of(const KeySource& source) {
  return (source.kind == KeySource::Kind::header ? "header:" : "json:") + source.name;
}

}  // namespace once::gateway
