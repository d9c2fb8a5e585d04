#include "core/fingerprint.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/sha256.hpp"
#include "core/body_forms.hpp"
#include "core/headers.hpp"
#include "core/json_canonical.hpp"

namespace once::core {

namespace {

using Body = FingerprintPolicy::Body;

constexpr std::string_view raw_domain = "once fingerprint 1 raw";
constexpr std::string_view json_domain = "once fingerprint 1 json";
constexpr std::string_view form_domain = "once fingerprint 1 form";
constexpr std::string_view multipart_domain = "once fingerprint 1 multipart";
constexpr std::string_view none_domain = "once fingerprint 1 none";

// RFC 6838 gives a type 255 characters at most; a longer one is no type anybody spells in two ways, and counts as
// it stands. So the lower-cased copy fits on the stack.
void update_lower_case(Sha256& hash, std::string_view type) {
  std::array<char, 255> buffer{};
  if (type.size() > buffer.size()) return hash.update_part(type);
  for (std::size_t i = 0; i < type.size(); ++i) buffer[i] = to_lower(type[i]);
  hash.update_part({buffer.data(), type.size()});
}

bool is_multipart(std::string_view content_type) {
  constexpr std::string_view prefix = "multipart/";
  return same_name(media_type(content_type).substr(0, prefix.size()), prefix);
}

bool is_form(std::string_view content_type) {
  return same_name(media_type(content_type), "application/x-www-form-urlencoded");
}

}  // namespace

std::string_view media_type(std::string_view content_type) {
  constexpr std::string_view space = " \t";
  std::string_view type = content_type.substr(0, content_type.find(';'));
  type.remove_prefix(std::min(type.find_first_not_of(space), type.size()));
  return type.substr(0, type.find_last_not_of(space) + 1);
}

bool is_json(std::string_view content_type) {
  constexpr std::string_view suffix = "+json";
  const std::string_view type = media_type(content_type);
  if (same_name(type, "application/json")) return true;
  return type.size() > suffix.size() && same_name(type.substr(type.size() - suffix.size()), suffix);
}

Fingerprint fingerprint(const FingerprintPolicy& policy, std::string_view method, std::string_view target,
                        std::string_view content_type, std::string_view body) {
  const auto started = [&](std::string_view domain) {
    Sha256 hash;
    hash.update_part(domain);
    hash.update_part(method);
    hash.update_part(target);
    update_lower_case(hash, media_type(content_type));
    return hash;
  };
  if (policy.body == Body::none) return {started(none_domain).digest()};
  if (policy.body != Body::raw && is_multipart(content_type)) {
    Sha256 hash = started(multipart_domain);
    if (hash_multipart(hash, content_type, body)) return {hash.digest()};
  }
  if (policy.body == Body::form && is_form(content_type)) {
    Sha256 hash = started(form_domain);
    if (hash_form(hash, body)) return {hash.digest()};
  }
  if (policy.body == Body::json && is_json(content_type)) {
    if (const auto canonical = canonical_json(body, policy.include, policy.exclude)) {
      Sha256 hash = started(json_domain);
      hash.update_part(*canonical);
      return {hash.digest()};
    }
  }
  Sha256 hash = started(raw_domain);
  hash.update_part(body);
  return {hash.digest()};
}

}  // namespace once::core
