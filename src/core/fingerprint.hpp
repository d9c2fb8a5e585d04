// The fingerprint of a request, which detects a key that is reused for another request: SHA-256 over method, path and
// query, media type and body, each with its length.
//
// It is stored with the record. If its computation changes, every retry in flight becomes a mismatch, so the domain
// tags carry a version, and each kind of body has its own tag.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.hpp"
#include "base/sha256.hpp"
#include "core/policy.hpp"

namespace once::core {

// `target` is path and query as sent. The media type counts without parameters and case. The body is compared as the
// policy says for its media type, or by its bytes if it does not follow that type. Bodies of different kinds (raw,
// JSON, form, multipart, none) never have equal fingerprints. Raw and multipart bodies need no allocation.
Fingerprint fingerprint(const FingerprintPolicy& policy, std::string_view method, std::string_view target,
                        std::string_view content_type, std::string_view body);

// Each kind of body has its own domain tag.
enum class FingerprintKind : std::uint8_t { raw, json, form, multipart, none };
// Hashes everything but the body.
Sha256 begin_fingerprint(FingerprintKind kind, std::string_view method, std::string_view target,
                         std::string_view content_type);
// Whether the policy compares this body part by part.
bool compares_parts(const FingerprintPolicy& policy, std::string_view content_type);

// The media type without its parameters.
std::string_view media_type(std::string_view content_type);

// application/json, or any type with the suffix +json; parameters are ignored.
bool is_json(std::string_view content_type);

}  // namespace once::core
