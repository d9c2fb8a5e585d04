// Outcomes that are being told to clients right now. Requests that tell the same outcome at the same time share its
// bytes, however often the store was asked for them, and the bytes count against limits.max_body_memory until the last
// of these clients has read them: what clients that read slowly hold grows with the outcomes, not with the clients.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/bytes.hpp"
#include "core/record.hpp"
#include "gateway/limits/holder_shares.hpp"
#include "gateway/limits/usage.hpp"

namespace once::gateway {

class ToldOutcomes {
 public:
  // Outcomes of this size belong to what a connection takes anyway: neither shared nor counted.
  static constexpr std::size_t largest_uncounted = 8192;

  explicit ToldOutcomes(Usage& usage) : usage_(usage) {}
  ToldOutcomes(const ToldOutcomes&) = delete;
  ToldOutcomes& operator=(const ToldOutcomes&) = delete;

  // The outcome to tell: `outcome`, or the same bytes as another request already tells them. Counted while somebody
  // holds what is returned, so that is not for stores, which hold their outcomes for as long as they are recorded.
  // Null: more than `most` bytes would be held.
  OutcomeBytes share(const OperationId& id, const Nonce& nonce, OutcomeBytes outcome, HeldFor what, std::size_t most);
  // The same for a replay to this holder. Null as well: what all replays to it take would be more than is left of
  // `most` for the others.
  OutcomeBytes replay(const OperationId& id, const Nonce& nonce, OutcomeBytes outcome, const TenantTag& holder,
                      std::size_t most);

 private:
  struct Key {
    OperationId id;
    Nonce nonce;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const { return std::hash<OperationId>()(key.id); }
  };
  struct Told;
  struct Shard {
    std::mutex mutex;
    std::unordered_map<Key, std::weak_ptr<Told>, KeyHash> told;
  };

  Shard& shard_of(const OperationId& id) { return shards_[id.bytes.back() % shards_.size()]; }
  OutcomeBytes share(const Key& key, OutcomeBytes outcome, HeldFor what, std::size_t most, const TenantTag* holder);
  std::shared_ptr<Told> find(const Key& key);
  void list(const std::shared_ptr<Told>& told);
  void forget(const Told& told);

  Usage& usage_;
  HolderShares shares_;
  std::array<Shard, 16> shards_;
};

}  // namespace once::gateway
