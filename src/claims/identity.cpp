#include "claims/identity.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <openssl/crypto.h>

#include "base/text.hpp"
#include "core/headers.hpp"

namespace once::claims {

namespace {

constexpr std::string_view scheme = "Bearer ";
constexpr std::string_view nonce_domain = "once claims nonce 1";
constexpr std::string_view proof_domain = "once claims proof 1";
constexpr std::string_view fingerprint_domain = "once claims fingerprint 1";

Digest digest_of(std::string_view token) {
  Sha256 hash;
  hash.update(token);
  return hash.digest();
}

template <class Bytes>
std::string_view view_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class Blob>
std::optional<Blob> blob_of(std::string_view hex) {
  const auto bytes = from_hex(hex);
  if (!bytes || bytes->size() != Blob::size) return std::nullopt;
  Blob blob;
  std::memcpy(blob.bytes.data(), bytes->data(), Blob::size);
  return blob;
}

}  // namespace

Tenants::Tenants(const std::vector<ClaimsToken>& tokens) {
  for (const ClaimsToken& token : tokens) {
    known_.push_back({.tenant = token.tenant, .digest = digest_of(token.token)});
  }
}

std::optional<std::string_view> Tenants::of(const http::RequestHead& head) const {
  if (known_.empty()) return "local";
  std::string_view given;
  std::size_t count = 0;
  for (const http::Field& field : head.fields) {
    if (!same_name(field.name, "Authorization")) continue;
    given = field.value;
    ++count;
  }
  if (count != 1 || !iequals(given.substr(0, scheme.size()), scheme)) return std::nullopt;
  const Digest digest = digest_of(trim(given.substr(scheme.size())));
  const Known* found = nullptr;
  for (const Known& known : known_) {
    if (CRYPTO_memcmp(known.digest.data(), digest.data(), digest.size()) == 0) found = &known;
  }
  if (found == nullptr) return std::nullopt;
  return found->tenant;
}

OperationId Identities::operation(std::string_view tenant, std::string_view scope, KeyKind kind,
                                  std::string_view key) const {
  // The gateway's scopes begin with another word, so no request of the gateway has this id.
  const std::array<std::string_view, 4> parts = {"claims", tenant, scope, kind == KeyKind::given ? "key" : "inputs"};
  return ids_.make(parts, key);
}

Fingerprint Identities::fingerprint(std::string_view canonical) const {
  HmacSha256::Stream stream = hmac_.start();
  stream.update_part(fingerprint_domain);
  stream.update_part(canonical);
  return {stream.digest()};
}

Identities::Half Identities::proof(std::string_view tenant, const OperationId& id, const Half& first) const {
  HmacSha256::Stream stream = hmac_.start();
  stream.update_part(proof_domain);
  stream.update_part(tenant);
  stream.update_part(id.view());
  stream.update_part(view_of(first));
  const Digest digest = stream.digest();
  Half half{};
  std::copy_n(digest.begin(), half.size(), half.begin());
  return half;
}

// Half of the nonce is as random as the given one, the other half proves the tenant.
Nonce Identities::owner(std::string_view tenant, const OperationId& id, const Nonce& given) const {
  HmacSha256::Stream stream = hmac_.start();
  stream.update_part(nonce_domain);
  stream.update_part(tenant);
  stream.update_part(id.view());
  stream.update_part(given.view());
  const Digest digest = stream.digest();
  Half first{};
  std::copy_n(digest.begin(), first.size(), first.begin());
  const Half second = proof(tenant, id, first);
  Nonce nonce;
  std::ranges::copy(first, nonce.bytes.begin());
  std::ranges::copy(second, nonce.bytes.begin() + first.size());
  return nonce;
}

std::string Identities::text_of(const ClaimHandle& handle) {
  std::string text = to_hex(handle.id);
  text += '.';
  append_hex(text, handle.nonce.view());
  return text;
}

std::optional<ClaimHandle> Identities::read(std::string_view tenant, std::string_view text) const {
  const std::size_t dot = std::min(text.find('.'), text.size());
  const auto id = blob_of<OperationId>(text.substr(0, dot));
  const auto nonce = blob_of<Nonce>(text.substr(std::min(dot + 1, text.size())));
  if (!id || !nonce) return std::nullopt;
  Half first{};
  std::copy_n(nonce->bytes.begin(), first.size(), first.begin());
  const Half expected = proof(tenant, *id, first);
  if (CRYPTO_memcmp(expected.data(), nonce->bytes.data() + first.size(), expected.size()) != 0) return std::nullopt;
  return ClaimHandle{.id = *id, .nonce = *nonce};
}

}  // namespace once::claims
