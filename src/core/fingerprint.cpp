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

std::string_view domain_of(FingerprintKind kind) {
  switch (kind) {
    case FingerprintKind::raw: return "once fingerprint 1 raw";
    case FingerprintKind::json: return "once fingerprint 1 json";
    case FingerprintKind::form: return "once fingerprint 1 form";
    case FingerprintKind::multipart: return "once fingerprint 1 multipart";
    case FingerprintKind::none: return "once fingerprint 1 none";
  }
  return "";
}

// RFC 6838 limits a type to 255 characters; longer ones are hashed as they are, because no client spells them in two
// ways. So the lower-case copy fits on the stack.
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

Sha256 begin_fingerprint(FingerprintKind kind, std::string_view method, std::string_view target,
                         std::string_view content_type) {
  Sha256 hash;
  hash.update_part(domain_of(kind));
  hash.update_part(method);
  hash.update_part(target);
  update_lower_case(hash, media_type(content_type));
  return hash;
}

bool compares_parts(const FingerprintPolicy& policy, std::string_view content_type) {
  return policy.body != Body::raw && policy.body != Body::none && is_multipart(content_type);
}

Fingerprint fingerprint(const FingerprintPolicy& policy, std::string_view method, std::string_view target,
                        std::string_view content_type, std::string_view body) {
  const auto started = [&](FingerprintKind kind) { return begin_fingerprint(kind, method, target, content_type); };
  if (policy.body == Body::none) return {started(FingerprintKind::none).digest()};
  if (compares_parts(policy, content_type)) {
    Sha256 hash = started(FingerprintKind::multipart);
    if (hash_multipart(hash, content_type, body)) return {hash.digest()};
  }
  if (policy.body == Body::form && is_form(content_type)) {
    Sha256 hash = started(FingerprintKind::form);
    if (hash_form(hash, body)) return {hash.digest()};
  }
  if (policy.body == Body::json && is_json(content_type)) {
    if (const auto canonical = canonical_json(body, policy.include, policy.exclude)) {
      Sha256 hash = started(FingerprintKind::json);
      hash.update_part(*canonical);
      return {hash.digest()};
    }
  }
  Sha256 hash = started(FingerprintKind::raw);
  hash.update_part(body);
  return {hash.digest()};
}

}  // namespace once::core
