#include "core/large_fingerprint.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/text.hpp"
#include "core/body_forms.hpp"
#include "core/fingerprint.hpp"

namespace once::core {

namespace {

constexpr std::string_view crlf = "\r\n";
constexpr std::size_t behind_delimiter = 4;  // the bytes after a delimiter that give its kind: `--` and CRLF
constexpr std::array<std::string_view, 2> digests = {"sha-256=:", "sha-512=:"};
constexpr std::size_t longest_digest = 88;  // SHA-512 in base64

// The base64 digest in the field for this algorithm; empty: none.
std::string_view digest_in(std::string_view field, std::string_view algorithm) {
  const std::size_t at = field.find(algorithm);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = field.substr(at + algorithm.size());
  const std::size_t end = rest.find(':');
  return end <= longest_digest ? rest.substr(0, end) : std::string_view();
}

}  // namespace

MultipartPass::Progress MultipartPass::step(BodyBytes& body) {
  return hashing_ ? hash(body) : find(body);
}

MultipartPass::Progress MultipartPass::find(BodyBytes& body) {
  const auto bytes = body.at(searched_, delimiter_.size());
  if (!bytes) return Progress::unreadable;
  const void* found = ::memmem(bytes->data(), bytes->size(), delimiter_.data(), delimiter_.size());
  if (found != nullptr) {
    if (in_epilogue_) return Progress::malformed;
    const auto at = static_cast<std::uint64_t>(static_cast<const char*>(found) - bytes->data());
    return end_section(body, searched_ + at);
  }
  if (searched_ + bytes->size() < size_) {
    searched_ += bytes->size() - (delimiter_.size() - 1);  // a delimiter may begin in the last bytes
    return Progress::more;
  }
  if (!in_epilogue_) return Progress::malformed;
  begin_hashing(size_);
  return Progress::more;
}

// Judges the section like hash_multipart().
MultipartPass::Progress MultipartPass::end_section(BodyBytes& body, std::uint64_t delimiter_at) {
  const bool nothing_before = delimiter_at == 0;
  if (!nothing_before) {
    if (delimiter_at - section_ < crlf.size()) return Progress::malformed;
    const auto before = body.at(delimiter_at - crlf.size(), crlf.size());
    if (!before) return Progress::unreadable;
    if (!before->starts_with(crlf)) return Progress::malformed;
  }
  const std::uint64_t after_at = delimiter_at + delimiter_.size();
  const auto after = body.at(after_at, behind_delimiter);
  if (!after) return Progress::unreadable;
  epilogue_next_ = after->starts_with("--");
  const std::string_view rest = epilogue_next_ ? after->substr(2) : *after;
  const bool at_end = epilogue_next_ && rest.empty();
  if (!at_end && !rest.starts_with(crlf)) return Progress::malformed;
  next_ = after_at + 2;
  begin_hashing(delimiter_at);
  return Progress::more;
}

void MultipartPass::begin_hashing(std::uint64_t end) {
  hashing_ = true;
  hashed_ = section_;
  end_ = end;
  hash_.begin_part(end - section_);
}

MultipartPass::Progress MultipartPass::hash(BodyBytes& body) {
  if (hashed_ < end_) {
    const auto bytes = body.at(hashed_, 1);
    if (!bytes || bytes->empty()) return Progress::unreadable;
    const auto part =
        bytes->substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(bytes->size(), end_ - hashed_)));
    hash_.update(part);
    hashed_ += part.size();
  }
  if (hashed_ < end_) return Progress::more;
  if (in_epilogue_) return Progress::whole;
  hashing_ = false;
  in_epilogue_ = epilogue_next_;
  section_ = searched_ = next_;
  return Progress::more;
}

LargeFingerprint::LargeFingerprint(const FingerprintPolicy& policy, std::string_view method, std::string_view target,
                                   std::string_view content_type, std::optional<std::uint64_t> length)
    : hash_(
          begin_fingerprint(policy.body == FingerprintPolicy::Body::none ? FingerprintKind::none : FingerprintKind::raw,
                            method, target, content_type)),
      ignores_body_(policy.body == FingerprintPolicy::Body::none) {
  if (compares_parts(policy, content_type)) {
    parts_ = begin_fingerprint(FingerprintKind::multipart, method, target, content_type);
    delimiter_ = multipart_delimiter(*parts_, content_type);
  }
  hashes_as_it_arrives_ = !ignores_body_ && !delimiter_ && length.has_value();
  if (hashes_as_it_arrives_) hash_.begin_part(*length);
}

void LargeFingerprint::add(std::string_view bytes) {
  if (hashes_as_it_arrives_) hash_.update(bytes);
}

LargeFingerprint::Known LargeFingerprint::end(std::uint64_t size) {
  if (ignores_body_ || hashes_as_it_arrives_) return Known::yes;
  size_ = size;
  if (delimiter_) {
    pass_.emplace(*parts_, *std::move(delimiter_), size);
  } else {
    hash_.begin_part(size_);
  }
  return Known::after_steps;
}

LargeFingerprint::Progress LargeFingerprint::step(BodyBytes& body) {
  if (!pass_) return step_raw(body);
  switch (pass_->step(body)) {
    case MultipartPass::Progress::more: break;
    case MultipartPass::Progress::whole: return Progress::known;
    case MultipartPass::Progress::unreadable: return Progress::unreadable;
    case MultipartPass::Progress::malformed:
      pass_.reset();
      hash_.begin_part(size_);
      break;
  }
  return Progress::more;
}

LargeFingerprint::Progress LargeFingerprint::step_raw(BodyBytes& body) {
  if (read_ == size_) return Progress::known;
  const auto bytes = body.at(read_, 1);
  if (!bytes || bytes->empty()) return Progress::unreadable;
  hash_.update(*bytes);
  read_ += bytes->size();
  return read_ == size_ ? Progress::known : Progress::more;
}

Fingerprint LargeFingerprint::take() {
  return {pass_ ? pass_->digest() : hash_.digest()};
}

std::string describe_large_body(const FingerprintPolicy& policy, std::string_view content_type, std::uint64_t size,
                                std::string_view content_digest) {
  if (policy.body == FingerprintPolicy::Body::none || compares_parts(policy, content_type)) return {};
  std::string text = std::to_string(size);
  for (const std::string_view algorithm : digests) {
    const std::string_view digest = digest_in(content_digest, algorithm);
    if (!digest.empty()) text.append(" ").append(algorithm).append(digest).append(":");
  }
  return text;
}

bool differs_from(std::string_view described, std::uint64_t size, std::string_view content_digest) {
  const auto length = parse_number(described.substr(0, described.find(' ')));
  if (!length) return false;
  if (*length != size) return true;
  return std::ranges::any_of(digests, [&](std::string_view algorithm) {
    const std::string_view recorded = digest_in(described, algorithm);
    const std::string_view announced = digest_in(content_digest, algorithm);
    return !recorded.empty() && !announced.empty() && recorded != announced;
  });
}

}  // namespace once::core
