// The process's use of its limits: keyed requests in progress, and memory of bodies. Shared by the workers. Over a
// limit, new requests are refused before they use memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/layers.hpp"
#include "base/reserved.hpp"

namespace once::gateway {

// The use of a body's memory.
enum class HeldFor : std::uint8_t {
  request,   // a request that must be complete before any decision
  response,  // a backend's response, until it is recorded and its client has read it
  replay,    // a recorded response, until all its current readers have it
  tag,       // a response that is given an ETag
};
inline constexpr std::size_t held_for_count = 4;
// The name in metrics.
std::string_view name_of(HeldFor what);

struct Usage {
  std::atomic<std::size_t> in_flight = 0;
  std::atomic<std::size_t> body_bytes = 0;                              // limits.max_body_memory
  std::array<std::atomic<std::size_t>, held_for_count> bytes_held_for;  // the same by HeldFor

  // Reserves memory, unless more than `most` bytes would then be in use in the whole process.
  Reserved take(HeldFor what, std::size_t bytes, std::size_t most);
  void give_back(HeldFor what, std::size_t bytes);
  // Whether `bytes` more would fit now.
  bool has_room(std::size_t bytes, std::size_t most) const {
    return body_bytes.load(std::memory_order_relaxed) + bytes <= most;
  }

  // Counts a request in progress while it lives.
  class Share {
   public:
    Share() = default;
    explicit Share(Usage& usage) : usage_(&usage) {}
    Share(const Share&) = delete;
    Share(Share&& other) noexcept : usage_(std::exchange(other.usage_, nullptr)) {}
    Share& operator=(Share other) noexcept {
      std::swap(usage_, other.usage_);
      return *this;
    }
    ~Share() {
      if (usage_ != nullptr) usage_->in_flight.fetch_sub(1, std::memory_order_relaxed);
    }
    explicit operator bool() const { return usage_ != nullptr; }

   private:
    Usage* usage_ = nullptr;
  };

  // Returns an empty share if `most` requests are in progress.
  Share begin(std::size_t most) {
    if (in_flight.fetch_add(1, std::memory_order_relaxed) < most) return Share(*this);
    in_flight.fetch_sub(1, std::memory_order_relaxed);
    return {};
  }
};

// A body being collected. Bytes received are counted, including the unused capacity of the buffer, and not bytes
// announced: announcing a length costs other requests nothing.
class HeldBody {
 public:
  explicit HeldBody(Usage& usage) : usage_(usage) {}
  HeldBody(const HeldBody&) = delete;
  HeldBody& operator=(const HeldBody&) = delete;
  ~HeldBody() { release(); }

  // Whether a body of this size would fit now.
  bool may_take(std::size_t size, std::size_t most) const {
    return size <= counted_ || usage_.has_room(size - counted_, most);
  }

  // Appends the data if it fits into `most` bytes of the whole process. `expected` is the whole length, if known.
  Reserved append(std::string_view data, std::size_t expected, std::size_t most);
  std::string_view view() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }

  // Empties it for more of the same body.
  void reuse() { bytes_.clear(); }
  // Empties it for the next body; large buffers are freed.
  void clear();
  void release();

 private:
  Usage& usage_;
  std::string bytes_;
  std::size_t counted_ = 0;
};

}  // namespace once::gateway
