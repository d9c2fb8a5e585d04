// The body of one request in a spool file: written as it arrives, compared, then read for the backend. It needs only
// the caller's buffer while it is written, and one piece of memory while it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/executor.hpp"
#include "base/task.hpp"
#include "core/large_fingerprint.hpp"
#include "gateway/exchange/backend.hpp"
#include "gateway/limits/usage.hpp"
#include "gateway/spool/spool.hpp"

namespace once::gateway {

// Bytes of the file that are in memory at a time.
inline constexpr std::size_t spool_piece = std::size_t{256} << 10U;

// At most one call is in progress at a time, and none when this is destroyed.
class SpooledBody final : public BodySource, private BodyBytes {
 public:
  struct Parts {
    Spool& spool;
    Executor& home;
    Usage& usage;
    std::string directory;
    std::uint64_t most_on_disk;  // all files together
    std::size_t most_in_memory;  // all bodies together
  };

  SpooledBody(Parts parts, LargeFingerprint fingerprint) : parts_(std::move(parts)), hash_(std::move(fingerprint)) {}
  SpooledBody(const SpooledBody&) = delete;
  SpooledBody& operator=(const SpooledBody&) = delete;
  ~SpooledBody();

  // Appends the bytes, which must stay valid until this returns.
  Task<SpoolResult<void>> write(std::string_view bytes);
  // Reserves memory to read the file.
  Reserved take_memory();
  // The body is complete: computes its fingerprint.
  Task<SpoolResult<void>> finish();
  const Fingerprint& fingerprint() const { return fingerprint_; }

  std::uint64_t size() const override { return size_; }
  Task<std::optional<std::string_view>> read(std::uint64_t offset) override;
  // The system's message for the last failure.
  const std::string& error() const { return error_; }

 private:
  std::optional<std::string_view> at(std::uint64_t offset, std::size_t least) override;
  SpoolResult<void> write_now(std::string_view bytes);
  SpoolResult<bool> compare_some();
  SpoolError failed(SpoolError error);

  Parts parts_;
  LargeFingerprint hash_;
  Fingerprint fingerprint_{};
  std::unique_ptr<SpoolFile> file_;
  std::uint64_t size_ = 0;
  std::uint64_t taken_ = 0;  // bytes reserved in the spool
  std::string piece_;        // the part of the file from `piece_at_` on
  std::uint64_t piece_at_ = 0;
  std::size_t counted_ = 0;  // bytes reserved of the memory for bodies
  std::size_t reads_ = 0;
  std::string error_;
};

}  // namespace once::gateway
