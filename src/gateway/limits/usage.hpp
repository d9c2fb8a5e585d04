// What the process uses of its limits: how many requests with a key there are, and what the bodies that are held take.
// Shared by the workers; over a limit, new ones are sent away before anything of them is held.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/layers.hpp"

namespace once::gateway {

// What bytes of a body are held for.
enum class HeldFor : std::uint8_t {
  request,   // it must be whole before anything is decided
  response,  // the backend's, until it is recorded and its client has read it
  replay,    // a recorded response, until all clients that read it now have it
  tag,       // a response that is given an ETag
};
inline constexpr std::size_t held_for_count = 4;
// As it stands in the metrics.
std::string_view name_of(HeldFor what);

struct Usage {
  std::atomic<std::size_t> in_flight = 0;
  std::atomic<std::size_t> body_bytes = 0;                              // limits.max_body_memory
  std::array<std::atomic<std::size_t>, held_for_count> bytes_held_for;  // of those, by HeldFor

  // False: more than `most` would be held in the whole process, and nothing was taken.
  bool take(HeldFor what, std::size_t bytes, std::size_t most);
  void give_back(HeldFor what, std::size_t bytes);
  // Whether so much would find room now.
  bool has_room(std::size_t bytes, std::size_t most) const {
    return body_bytes.load(std::memory_order_relaxed) + bytes <= most;
  }

  // A request at work, for as long as this is held.
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

  // Nothing is held if there are as many as there may be.
  Share begin(std::size_t most) {
    if (in_flight.fetch_add(1, std::memory_order_relaxed) < most) return Share(*this);
    in_flight.fetch_sub(1, std::memory_order_relaxed);
    return {};
  }
};

// A body that is collected. What it takes, used or not, is counted while it is held: by bytes that came, not by bytes
// that were announced, so that announcing costs nobody anything.
class HeldBody {
 public:
  explicit HeldBody(Usage& usage) : usage_(usage) {}
  HeldBody(const HeldBody&) = delete;
  HeldBody& operator=(const HeldBody&) = delete;
  ~HeldBody() { release(); }

  // Whether a body of this size would find room now.
  bool may_take(std::size_t size, std::size_t most) const {
    return size <= counted_ || usage_.has_room(size - counted_, most);
  }

  // False: there is no room within `most` bytes of the whole process. `expected`: of the whole body, if known.
  bool append(std::string_view data, std::size_t expected, std::size_t most);
  std::string_view view() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }

  // For more of the same body.
  void reuse() { bytes_.clear(); }
  // For the next body: large ones give their memory back.
  void clear();
  void release();

 private:
  Usage& usage_;
  std::string bytes_;
  std::size_t counted_ = 0;
};

}  // namespace once::gateway
