// The fingerprint (fingerprint.hpp) of a body that is not in memory as a whole, in constant memory. It is the same as
// that of the same body in memory, except that JSON and forms count by their bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "base/sha256.hpp"
#include "core/policy.hpp"

namespace once::core {

// A body that can be read in any place, again and again.
class BodyBytes {
 public:
  // At least this many bytes from the offset on, or all up to the end of the body; as many more as are at hand. Good
  // until the next call. None: they cannot be read.
  virtual std::optional<std::string_view> at(std::uint64_t offset, std::size_t least) = 0;

 protected:
  ~BodyBytes() = default;
};

// hash_multipart() for such a body. Reads each byte at most twice and hashes it once.
class MultipartPass {
 public:
  MultipartPass(const Sha256& begun, std::string delimiter, std::uint64_t size)
      : hash_(begun), delimiter_(std::move(delimiter)), size_(size) {}

  enum class Progress : std::uint8_t { more, whole, malformed, unreadable };
  // Looks at what one call of BodyBytes::at() has at hand, or at one delimiter.
  Progress step(BodyBytes& body);
  Digest digest() { return hash_.digest(); }

 private:
  Progress find(BodyBytes& body);
  Progress end_section(BodyBytes& body, std::uint64_t delimiter_at);
  Progress hash(BodyBytes& body);
  void begin_hashing(std::uint64_t end);

  Sha256 hash_;
  const std::string delimiter_;
  const std::uint64_t size_;
  std::uint64_t section_ = 0;   // where the section at hand begins
  std::uint64_t searched_ = 0;  // no delimiter begins between that and here
  std::uint64_t hashed_ = 0;
  std::uint64_t end_ = 0;   // of the section that is being hashed
  std::uint64_t next_ = 0;  // where the one behind it begins
  bool hashing_ = false;
  bool in_epilogue_ = false;
  bool epilogue_next_ = false;
};

class LargeFingerprint {
 public:
  // `length`: of the body, if it is known before it comes.
  LargeFingerprint(const FingerprintPolicy& policy, std::string_view method, std::string_view target,
                   std::string_view content_type, std::optional<std::uint64_t> length);

  // The bytes as they come.
  void add(std::string_view bytes);
  // They have all come, `size` of them. False: the body has to be read again, with step().
  bool end(std::uint64_t size);
  enum class Progress : std::uint8_t { more, known, unreadable };
  Progress step(BodyBytes& body);
  // Once it is known.
  Fingerprint take();

 private:
  Progress step_raw(BodyBytes& body);

  Sha256 hash_;                  // of everything but the body, or with it as far as it came
  std::optional<Sha256> parts_;  // the same, for a body that is compared part by part
  std::optional<std::string> delimiter_;
  std::optional<MultipartPass> pass_;
  std::uint64_t size_ = 0;
  std::uint64_t read_ = 0;
  bool hashes_as_it_comes_ = false;
  bool ignores_body_ = false;
};

// What is recorded of a body that is compared by its bytes, so that another one may be refused before it comes: its
// length and the Content-Digest (RFC 9530) that it was sent with. Empty: the body is not compared by its bytes.
std::string describe_large_body(const FingerprintPolicy& policy, std::string_view content_type, std::uint64_t size,
                                std::string_view content_digest);
// Whether a body that is announced like this is certainly another one. False: it has to be compared.
bool differs_from(std::string_view described, std::uint64_t size, std::string_view content_digest);

}  // namespace once::core
