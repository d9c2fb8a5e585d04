#include "gateway/limits/caller_limits.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/assert.hpp"
#include "base/sometimes.hpp"

namespace once::gateway {

namespace {

using std::chrono::nanoseconds;
using FloatSeconds = std::chrono::duration<double>;

constexpr int coarseness = 8;  // buckets per lifetime
constexpr std::size_t dropped_at_once = 2;
constexpr int longest_limit_wait = 3600;

double burst_of(const CallerLimits& limits) {
  return static_cast<double>(limits.new_keys_burst != 0 ? limits.new_keys_burst : 2 * limits.new_keys);
}

int whole_seconds(nanoseconds time) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(time).count();
  return static_cast<int>(std::clamp<std::int64_t>(seconds, 1, longest_limit_wait));
}

}  // namespace

std::string_view name_of(CallerLimit limit) {
  switch (limit) {
    case CallerLimit::in_flight: return "in_flight";
    case CallerLimit::new_keys: return "new_keys";
    case CallerLimit::stored_bytes: return "stored_bytes";
    case CallerLimit::address_new_keys: return "address_new_keys";
    case CallerLimit::address_stored_bytes: return "address_stored_bytes";
  }
  return "";
}

void ExpiringBytes::add(std::size_t bytes, Duration life, nanoseconds now) {
  add(bytes, life, nanoseconds(life) / coarseness, now);
}

void ExpiringBytes::add_briefly(std::size_t bytes, Duration life, nanoseconds now) {
  add(bytes, life, nanoseconds(life) / 2, now);
}

void ExpiringBytes::add(std::size_t bytes, nanoseconds life, nanoseconds width, nanoseconds now) {
  const nanoseconds end = now + life;
  Bucket* later = nullptr;  // the soonest that ends after this
  Bucket* latest = buckets_.data();
  for (Bucket& bucket : buckets_) {
    if (bucket.until <= now) bucket = {};
    if (bucket.until > latest->until) latest = &bucket;
    if (bucket.until >= end && (later == nullptr || bucket.until < later->until)) later = &bucket;
  }
  if (later != nullptr && later->until <= end + width) {
    later->bytes += bytes;
    return;
  }
  const auto free = std::ranges::find(buckets_, std::size_t{0}, &Bucket::bytes);
  if (free != buckets_.end()) {
    *free = {.until = end + width, .bytes = bytes};
    return;
  }
  // Every bucket is in use: count the bytes too long rather than not at all.
  Bucket& shared = later != nullptr ? *later : *latest;
  shared.until = std::max(shared.until, end);
  shared.bytes += bytes;
}

void ExpiringBytes::remove(std::size_t bytes, nanoseconds until, nanoseconds now) {
  if (until <= now) return;
  std::array<Bucket*, std::tuple_size_v<decltype(buckets_)>> in_order;
  for (std::size_t i = 0; i < buckets_.size(); ++i) in_order[i] = &buckets_[i];
  std::ranges::sort(in_order, {}, &Bucket::until);
  for (Bucket* bucket : in_order) {
    if (bucket->until < until) continue;
    const std::size_t some = std::min(bytes, bucket->bytes);
    bucket->bytes -= some;
    bytes -= some;
  }
}

std::size_t ExpiringBytes::live(nanoseconds now) const {
  std::size_t sum = 0;
  for (const Bucket& bucket : buckets_) {
    if (bucket.until > now) sum += bucket.bytes;
  }
  return sum;
}

nanoseconds ExpiringBytes::first_end(nanoseconds now) const {
  nanoseconds first{};
  for (const Bucket& bucket : buckets_) {
    if (bucket.until > now && bucket.bytes > 0 && (first == nanoseconds{} || bucket.until < first)) {
      first = bucket.until;
    }
  }
  return first;
}

std::size_t CallerTable::TagHash::operator()(const TenantTag& tag) const {
  return std::hash<std::string_view>()({tag.data(), tag.size()});
}

CallerTable::Shard& CallerTable::shard_of(const TenantTag& caller) {
  constexpr unsigned high_bits = 32;  // the low bits choose a place within the shard
  return shards_[(TagHash()(caller) >> high_bits) % shard_count];
}

CallerTable::Entry* CallerTable::Shard::find(const TenantTag& caller) {
  const auto found = by_caller.find(caller);
  return found == by_caller.end() ? nullptr : &*found->second;
}

CallerTable::Entry& CallerTable::Shard::use(const TenantTag& caller, const CallerLimits& limits, nanoseconds now) {
  const auto found = by_caller.find(caller);
  if (found != by_caller.end()) {
    entries.splice(entries.begin(), entries, found->second);
    return entries.front();
  }
  drop_some(limits.tracked / shard_count, now);
  entries.push_front({.caller = caller, .keys = burst_of(limits), .keys_at = now, .full_at = now, .stored = {}});
  by_caller.emplace(caller, entries.begin());
  return entries.front();
}

// Drops a few entries that were not used for the longest. Entries with requests in progress count as used, so that they
// do not block the others.
void CallerTable::Shard::drop_some(std::size_t most, nanoseconds now) {
  for (std::size_t looked_at = 0; looked_at < dropped_at_once && !entries.empty(); ++looked_at) {
    const auto oldest = std::prev(entries.end());
    const bool blank = oldest->full_at <= now && oldest->stored.live(now) == 0;
    if (oldest->in_flight > 0) {
      entries.splice(entries.begin(), entries, oldest);
    } else if (blank || entries.size() >= most) {
      by_caller.erase(oldest->caller);
      entries.erase(oldest);
    } else {
      return;
    }
  }
}

bool CallerTable::begin(const TenantTag& caller, const CallerLimits& limits, nanoseconds now) {
  Shard& shard = shard_of(caller);
  const std::scoped_lock lock(shard.mutex);
  Entry& entry = shard.use(caller, limits, now);
  if (limits.in_flight != 0 && entry.in_flight >= limits.in_flight) return false;
  ++entry.in_flight;
  return true;
}

void CallerTable::end(const TenantTag& caller) {
  Shard& shard = shard_of(caller);
  const std::scoped_lock lock(shard.mutex);
  Entry* entry = shard.find(caller);
  ONCE_ASSERT(entry != nullptr && entry->in_flight > 0);
  --entry->in_flight;
}

std::optional<CallerTable::Refusal> CallerTable::take_key(const TenantTag& caller, const CallerLimits& limits,
                                                          nanoseconds now) {
  Shard& shard = shard_of(caller);
  const std::scoped_lock lock(shard.mutex);
  Entry& entry = shard.use(caller, limits, now);
  if (limits.stored_bytes != 0 && entry.stored.live(now) >= limits.stored_bytes) {
    sometimes<"quota: all stored bytes are used up">();
    return Refusal{CallerLimit::stored_bytes, whole_seconds(entry.stored.first_end(now) - now)};
  }
  if (limits.new_keys == 0) return std::nullopt;
  const auto rate = static_cast<double>(limits.new_keys);
  const double burst = burst_of(limits);
  entry.keys = std::min(burst, entry.keys + FloatSeconds(now - entry.keys_at).count() * rate);
  entry.keys_at = now;
  if (entry.keys < 1) {
    sometimes<"quota: too many new keys">();
    return Refusal{CallerLimit::new_keys,
                   whole_seconds(std::chrono::ceil<nanoseconds>(FloatSeconds((1 - entry.keys) / rate)))};
  }
  entry.keys -= 1;
  entry.full_at = now + std::chrono::ceil<nanoseconds>(FloatSeconds((burst - entry.keys) / rate));
  return std::nullopt;
}

void CallerTable::give_back_key(const TenantTag& caller, const CallerLimits& limits) {
  if (limits.new_keys == 0) return;
  Shard& shard = shard_of(caller);
  const std::scoped_lock lock(shard.mutex);
  if (Entry* entry = shard.find(caller)) entry->keys = std::min(burst_of(limits), entry->keys + 1);
}

void CallerTable::stored(const TenantTag& caller, const CallerLimits& limits, const StoredBytes& was,
                         const StoredBytes& is, nanoseconds now) {
  Shard& shard = shard_of(caller);
  const std::scoped_lock lock(shard.mutex);
  ExpiringBytes& stored = shard.use(caller, limits, now).stored;
  stored.remove(was.bytes, was.until, now);
  if (is.bytes > 0) stored.add(is.bytes, std::chrono::ceil<Duration>(is.until - now), now);
}

void CallerTable::left(const TenantTag& caller, const CallerLimits& limits, std::size_t bytes, Duration life,
                       nanoseconds now) {
  Shard& shard = shard_of(caller);
  const std::scoped_lock lock(shard.mutex);
  shard.use(caller, limits, now).stored.add_briefly(bytes, life, now);
}

void CallerTable::removed(const TenantTag& caller, const StoredBytes& was, nanoseconds now) {
  Shard& shard = shard_of(caller);
  const std::scoped_lock lock(shard.mutex);
  if (Entry* entry = shard.find(caller)) entry->stored.remove(was.bytes, was.until, now);
}

bool CallerTable::has_room(const TenantTag& caller, const CallerLimits& limits, nanoseconds now) {
  return limits.stored_bytes == 0 || stored_bytes(caller, now) < limits.stored_bytes;
}

std::size_t CallerTable::stored_bytes(const TenantTag& caller, nanoseconds now) {
  Shard& shard = shard_of(caller);
  const std::scoped_lock lock(shard.mutex);
  const Entry* entry = shard.find(caller);
  return entry == nullptr ? 0 : entry->stored.live(now);
}

std::optional<CallerTable::Refusal> CallerUse::take_key(const CallerLimits& limits, nanoseconds now) {
  const auto refusal = table_->take_key(caller_, limits, now);
  counted_ = !refusal;
  return refusal;
}

void CallerUse::give_back_key(const CallerLimits& limits) {
  if (std::exchange(counted_, false)) table_->give_back_key(caller_, limits);
}

std::size_t CallerTable::size() const {
  std::size_t sum = 0;
  for (const Shard& shard : shards_) {
    const std::scoped_lock lock(shard.mutex);
    sum += shard.entries.size();
  }
  return sum;
}

}  // namespace once::gateway
