#include "gateway/limits/usage.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace once::gateway {

namespace {

constexpr std::size_t kept_capacity = std::size_t{64} << 10U;
constexpr std::size_t least_growth = 4096;

}  // namespace

std::string_view name_of(HeldFor what) {
  switch (what) {
    case HeldFor::request: return "request";
    case HeldFor::response: return "response";
    case HeldFor::replay: return "replay";
    case HeldFor::tag: return "tag";
  }
  return "";
}

Reserved Usage::take(HeldFor what, std::size_t bytes, std::size_t most) {
  const std::size_t before = body_bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (before > most || bytes > most - before) {
    body_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    return Reserved::no;
  }
  bytes_held_for[static_cast<std::size_t>(what)].fetch_add(bytes, std::memory_order_relaxed);
  return Reserved::yes;
}

void Usage::give_back(HeldFor what, std::size_t bytes) {
  const std::size_t all = body_bytes.fetch_sub(bytes, std::memory_order_relaxed);
  const std::size_t own = bytes_held_for[static_cast<std::size_t>(what)].fetch_sub(bytes, std::memory_order_relaxed);
  ONCE_ASSERT(all >= bytes && own >= bytes);
}

Reserved HeldBody::append(std::string_view data, std::size_t expected, std::size_t most) {
  const std::size_t needed = bytes_.size() + data.size();
  if (needed > bytes_.capacity()) {
    const std::size_t doubled = std::max(bytes_.capacity() * 2, least_growth);
    // Reserve no more than the expected length, if it is known: most bodies announce one.
    const std::size_t wanted = std::max(needed, expected > 0 ? std::min(expected, doubled) : doubled);
    const std::size_t more = wanted - std::min(wanted, counted_);
    if (usage_.take(HeldFor::request, more, most) == Reserved::no) return Reserved::no;
    counted_ += more;
    bytes_.reserve(wanted);
  }
  bytes_.append(data);
  return Reserved::yes;
}

void HeldBody::clear() {
  bytes_.clear();
  if (counted_ > kept_capacity) release();
}

void HeldBody::release() {
  std::string().swap(bytes_);
  if (counted_ > 0) usage_.give_back(HeldFor::request, counted_);
  counted_ = 0;
}

}  // namespace once::gateway
