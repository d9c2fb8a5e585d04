// The fingerprint (fingerprint.hpp) of a body that is not in memory as a whole, computed in constant memory. It equals
// that of the same body in memory, except that JSON and forms are compared by their bytes.
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

// A body that can be read at any offset, repeatedly.
class BodyBytes {
 public:
  // At least `least` bytes from the offset on, or up to the end of the body; more if available. Valid until the next
  // call. nullopt: they cannot be read.
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
  // Processes the bytes of one call of BodyBytes::at(), or one delimiter.
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
  std::uint64_t section_ = 0;   // the start of the current section
  std::uint64_t searched_ = 0;  // no delimiter begins before this
  std::uint64_t hashed_ = 0;
  std::uint64_t end_ = 0;   // the end of the section being hashed
  std::uint64_t next_ = 0;  // the start of the next section
  bool hashing_ = false;
  bool in_epilogue_ = false;
  bool epilogue_next_ = false;
};

class LargeFingerprint {
 public:
  // `length` is the length of the body, if it is known in advance.
  LargeFingerprint(const FingerprintPolicy& policy, std::string_view method, std::string_view target,
                   std::string_view content_type, std::optional<std::uint64_t> length);

  // Adds bytes as they arrive.
  void add(std::string_view bytes);
  enum class Known : std::uint8_t { yes, after_steps };
  // Call when all `size` bytes were added. `after_steps`: the body must be read again, with step().
  Known end(std::uint64_t size);
  enum class Progress : std::uint8_t { more, known, unreadable };
  Progress step(BodyBytes& body);
  // Call once it is known.
  Fingerprint take();

 private:
  Progress step_raw(BodyBytes& body);

  Sha256 hash_;                  // of everything but the body, or including the body so far
  std::optional<Sha256> parts_;  // the same for a body that is compared by parts
  std::optional<std::string> delimiter_;
  std::optional<MultipartPass> pass_;
  std::uint64_t size_ = 0;
  std::uint64_t read_ = 0;
  bool hashes_as_it_arrives_ = false;
  bool ignores_body_ = false;
};

// The recorded description of a body that is compared by its bytes: its length and Content-Digest (RFC 9530). A
// different body can then be refused before it is read. Empty: the body is compared another way.
std::string describe_large_body(const FingerprintPolicy& policy, std::string_view content_type, std::uint64_t size,
                                std::string_view content_digest);
// Whether a body announced like this certainly differs. Otherwise it must be compared.
bool differs_from(std::string_view described, std::uint64_t size, std::string_view content_digest);

}  // namespace once::core
