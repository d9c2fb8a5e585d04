#include "core/fingerprint.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/sha256.hpp"
#include "core/headers.hpp"
#include "core/json_canonical.hpp"

namespace once {

namespace {

constexpr std::string_view raw_domain = "once fingerprint 1 raw";
constexpr std::string_view json_domain = "once fingerprint 1 json";

// RFC 6838 gives a type 255 characters at most; a longer one is no type anybody spells in two ways, and counts as
// it stands. So the lower-cased copy fits on the stack.
void update_lower_case(Sha256& hash, std::string_view type) {
  std::array<char, 255> buffer{};
  if (type.size() > buffer.size()) return hash.update_part(type);
  for (std::size_t i = 0; i < type.size(); ++i) buffer[i] = to_lower(type[i]);
  hash.update_part({buffer.data(), type.size()});
}

Fingerprint hash_of(std::string_view domain, std::string_view method, std::string_view target,
                    std::string_view content_type, std::string_view body) {
  Sha256 hash;
  hash.update_part(domain);
  hash.update_part(method);
  hash.update_part(target);
  update_lower_case(hash, media_type(content_type));
  hash.update_part(body);
  return {hash.finish()};
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
  if (policy.body == FingerprintPolicy::Body::json && is_json(content_type)) {
    if (const auto canonical = canonical_json(body, policy.include, policy.exclude)) {
      return hash_of(json_domain, method, target, content_type, *canonical);
    }
  }
  return hash_of(raw_domain, method, target, content_type, body);
}

}  // namespace once
