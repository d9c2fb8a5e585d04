#include "base/random.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.hpp"

namespace once::base {

namespace {

void fill_from_kernel(std::span<std::uint8_t> out) {
  while (!out.empty()) {
    const ssize_t got = ::getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    // A process without randomness cannot own a claim; there is nothing to fall back to.
    ONCE_ASSERT(got > 0);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace

void SystemRandom::fill(std::span<std::uint8_t> out) {
  while (!out.empty()) {
    if (used_ == block_.size()) {
      fill_from_kernel(block_);
      used_ = 0;
    }
    const std::size_t take = std::min(out.size(), block_.size() - used_);
    std::memcpy(out.data(), block_.data() + used_, take);
    // Wipe the bytes that were handed out: a later memory disclosure shows no live nonce.
    std::memset(block_.data() + used_, 0, take);
    used_ += take;
    out = out.subspan(take);
  }
}

}  // namespace once::base
