#include "gateway/limits/shared_outcomes.hpp"

#include <optional>
#include <utility>

#include "base/sometimes.hpp"

namespace once::gateway {

struct SharedOutcomes::Entry {
  Entry(SharedOutcomes& the_table, const Key& the_key, OutcomeBytes the_bytes, HeldFor the_reason)
      : table(the_table), key(the_key), bytes(std::move(the_bytes)), what(the_reason) {}
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry() {
    table.usage_.give_back(what, bytes->size());
    if (holder) table.shares_.give_back(*holder, bytes->size());
    table.forget(*this);
  }

  SharedOutcomes& table;
  const Key key;
  const OutcomeBytes bytes;
  const HeldFor what;
  std::optional<TenantTag> holder{};  // whose share it counts against
};

std::shared_ptr<SharedOutcomes::Entry> SharedOutcomes::find(const Key& key) {
  Shard& shard = shard_of(key.id);
  const std::scoped_lock lock(shard.mutex);
  const auto found = shard.entries.find(key);
  return found == shard.entries.end() ? nullptr : found->second.lock();
}

void SharedOutcomes::list(const std::shared_ptr<Entry>& entry) {
  Shard& shard = shard_of(entry->key.id);
  const std::scoped_lock lock(shard.mutex);
  std::weak_ptr<Entry>& place = shard.entries[entry->key];
  if (place.expired()) place = entry;
}

// Another outcome may be listed under the key by now.
void SharedOutcomes::forget(const Entry& entry) {
  Shard& shard = shard_of(entry.key.id);
  const std::scoped_lock lock(shard.mutex);
  const auto found = shard.entries.find(entry.key);
  if (found != shard.entries.end() && found->second.expired()) shard.entries.erase(found);
}

OutcomeBytes SharedOutcomes::share(const OperationId& id, const Nonce& nonce, OutcomeBytes outcome, HeldFor what,
                                   std::size_t most) {
  return share({.id = id, .nonce = nonce}, std::move(outcome), what, most, nullptr);
}

OutcomeBytes SharedOutcomes::replay(const OperationId& id, const Nonce& nonce, OutcomeBytes outcome,
                                    const TenantTag& holder, std::size_t most) {
  return share({.id = id, .nonce = nonce}, std::move(outcome), HeldFor::replay, most, &holder);
}

OutcomeBytes SharedOutcomes::share(const Key& key, OutcomeBytes outcome, HeldFor what, std::size_t most,
                                   const TenantTag* holder) {
  if (outcome->size() <= largest_uncounted) return outcome;
  // One nonce may have two outcomes: one that could not be recorded, and one that an operator recorded afterwards.
  std::shared_ptr<Entry> entry = find(key);
  if (!entry || *entry->bytes != *outcome) {
    const std::size_t size = outcome->size();
    if (holder != nullptr && shares_.take(*holder, size, most) == Reserved::no) return nullptr;
    sometimes<"limits: two outcomes under one claim">(entry != nullptr);
    if (usage_.take(what, size, most) == Reserved::no) {
      if (holder != nullptr) shares_.give_back(*holder, size);
      return nullptr;
    }
    entry = std::make_shared<Entry>(*this, key, std::move(outcome), what);
    if (holder != nullptr) entry->holder = *holder;
    list(entry);
  }
  const std::string* bytes = entry->bytes.get();
  return {std::move(entry), bytes};
}

}  // namespace once::gateway
