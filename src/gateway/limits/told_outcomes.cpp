#include "gateway/limits/told_outcomes.hpp"

#include <utility>

namespace once::gateway {

struct ToldOutcomes::Told {
  Told(ToldOutcomes& the_table, const Key& the_key, OutcomeBytes the_bytes, HeldFor the_reason)
      : table(the_table), key(the_key), bytes(std::move(the_bytes)), what(the_reason) {}
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;
  ~Told() {
    table.usage_.give_back(what, bytes->size());
    table.forget(*this);
  }

  ToldOutcomes& table;
  const Key key;
  const OutcomeBytes bytes;
  const HeldFor what;
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

// Another outcome may be listed under the key by now.
void ToldOutcomes::forget(const Told& told) {
  Shard& shard = shard_of(told.key.id);
  const std::scoped_lock lock(shard.mutex);
  const auto found = shard.told.find(told.key);
  if (found != shard.told.end() && found->second.expired()) shard.told.erase(found);
}

OutcomeBytes ToldOutcomes::share(const OperationId& id, const Nonce& nonce, OutcomeBytes outcome, HeldFor what,
                                 std::size_t most) {
  if (outcome->size() <= largest_uncounted) return outcome;
  const Key key{.id = id, .nonce = nonce};
  // One nonce may have two outcomes: one that could not be recorded, and one that an operator recorded afterwards.
  std::shared_ptr<Told> told = find(key);
  if (!told || *told->bytes != *outcome) {
    if (!usage_.take(what, outcome->size(), most)) return nullptr;
    told = std::make_shared<Told>(*this, key, std::move(outcome), what);
    list(told);
  }
  const std::string* bytes = told->bytes.get();
  return {std::move(told), bytes};
}

}  // namespace once::gateway
