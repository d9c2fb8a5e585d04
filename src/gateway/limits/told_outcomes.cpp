#include "gateway/limits/told_outcomes.hpp"

#include <optional>
#include <utility>

namespace once::gateway {

struct ToldOutcomes::Told {
  Told(ToldOutcomes& the_table, const Key& the_key, OutcomeBytes the_bytes, HeldFor the_reason)
      : table(the_table), key(the_key), bytes(std::move(the_bytes)), what(the_reason) {}
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;
  ~Told() {
    table.usage_.give_back(what, bytes->size());
    if (holder) table.shares_.give_back(*holder, bytes->size());
    table.forget(*this);
  }

  ToldOutcomes& table;
  const Key key;
  const OutcomeBytes bytes;
  const HeldFor what;
  std::optional<TenantTag> holder{};  // that has it in its share
};

std::shared_ptr<ToldOutcomes::Told> ToldOutcomes::find(const Key& key) {
  Shard& shard = shard_of(key.id);
  const std::scoped_lock lock(shard.mutex);
  const auto found = shard.told.find(key);
  return found == shard.told.end() ? nullptr : found->second.lock();
}

void ToldOutcomes::list(const std::shared_ptr<Told>& told) {
  Shard& shard = shard_of(told->key.id);
  const std::scoped_lock lock(shard.mutex);
  std::weak_ptr<Told>& place = shard.told[told->key];
  if (place.expired()) place = told;
}

// Another one may be listed in its place by now.
void ToldOutcomes::forget(const Told& told) {
  Shard& shard = shard_of(told.key.id);
  const std::scoped_lock lock(shard.mutex);
  const auto found = shard.told.find(told.key);
  if (found != shard.told.end() && found->second.expired()) shard.told.erase(found);
}

OutcomeBytes ToldOutcomes::share(const OperationId& id, const Nonce& nonce, OutcomeBytes outcome, HeldFor what,
                                 std::size_t most) {
  return share({.id = id, .nonce = nonce}, std::move(outcome), what, most, nullptr);
}

OutcomeBytes ToldOutcomes::replay(const OperationId& id, const Nonce& nonce, OutcomeBytes outcome,
                                  const TenantTag& holder, std::size_t most) {
  return share({.id = id, .nonce = nonce}, std::move(outcome), HeldFor::replay, most, &holder);
}

OutcomeBytes ToldOutcomes::share(const Key& key, OutcomeBytes outcome, HeldFor what, std::size_t most,
                                 const TenantTag* holder) {
  if (outcome->size() <= largest_uncounted) return outcome;
  // Under one nonce there may be two outcomes: one that could not be recorded, and the one an operator recorded then.
  std::shared_ptr<Told> told = find(key);
  if (!told || *told->bytes != *outcome) {
    const std::size_t size = outcome->size();
    if (holder != nullptr && !shares_.take(*holder, size, most)) return nullptr;
    if (!usage_.take(what, size, most)) {
      if (holder != nullptr) shares_.give_back(*holder, size);
      return nullptr;
    }
    told = std::make_shared<Told>(*this, key, std::move(outcome), what);
    if (holder != nullptr) told->holder = *holder;
    list(told);
  }
  const std::string* bytes = told->bytes.get();
  return {std::move(told), bytes};
}

}  // namespace once::gateway
