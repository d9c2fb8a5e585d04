// The memory of readers of recorded chunks: at most half of limits.max_body_memory, so that responses can be recorded
// however many readers there are. One caller's readers may use at most as much as is left for other callers.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include "core/operation.hpp"
#include "gateway/limits/holder_shares.hpp"
#include "gateway/limits/usage.hpp"

namespace once::gateway {

class ReaderMemory {
 public:
  explicit ReaderMemory(Usage& usage) : usage_(usage) {}
  ReaderMemory(const ReaderMemory&) = delete;
  ReaderMemory& operator=(const ReaderMemory&) = delete;

  // Memory of one reader, given back on destruction.
  class Room {
   public:
    Room() = default;
    Room(ReaderMemory& memory, const TenantTag& caller, std::size_t bytes)
        : memory_(&memory), caller_(caller), bytes_(bytes) {}
    Room(Room&& other) noexcept
        : memory_(std::exchange(other.memory_, nullptr)), caller_(other.caller_), bytes_(other.bytes_) {}
    Room& operator=(Room&& other) noexcept {
      std::swap(memory_, other.memory_);
      std::swap(caller_, other.caller_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;
    ~Room() {
      if (memory_ != nullptr) memory_->give_back(caller_, bytes_);
    }

    explicit operator bool() const { return memory_ != nullptr; }

   private:
    ReaderMemory* memory_ = nullptr;
    TenantTag caller_{};
    std::size_t bytes_ = 0;
  };

  // nullopt: no memory for this caller under this limits.max_body_memory. A single reader always gets some.
  std::optional<Room> take(const TenantTag& caller, std::size_t bytes, std::size_t max_body_memory);

 private:
  void give_back(const TenantTag& caller, std::size_t bytes);

  Usage& usage_;
  HolderShares shares_;
};

}  // namespace once::gateway
