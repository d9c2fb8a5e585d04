// Outcomes that are being sent to clients right now. Requests that send the same outcome at the same time share its
// bytes, and the bytes count against limits.max_body_memory until the last of these clients has read them: slow readers
// take memory per outcome, not per client.
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

class SharedOutcomes {
 public:
  // Outcomes up to this size are part of a connection's normal memory: neither shared nor counted.
  static constexpr std::size_t largest_uncounted = 8192;

  explicit SharedOutcomes(Usage& usage) : usage_(usage) {}
  SharedOutcomes(const SharedOutcomes&) = delete;
  SharedOutcomes& operator=(const SharedOutcomes&) = delete;

  // The outcome to send: `outcome`, or the equal bytes that another request already sends. It is counted while the
  // result is held, so do not give it to stores, which keep outcomes until they expire. Null: more than `most` bytes
  // would be in use.
  OutcomeBytes share(const OperationId& id, const Nonce& nonce, OutcomeBytes outcome, HeldFor what, std::size_t most);
  // The same for a replay to this holder. Also null if all replays to the holder would take more than is left of `most`
  // for other holders.
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
  struct Entry;
  struct Shard {
    std::mutex mutex;
    std::unordered_map<Key, std::weak_ptr<Entry>, KeyHash> entries;
  };

  Shard& shard_of(const OperationId& id) { return shards_[id.bytes.back() % shards_.size()]; }
  OutcomeBytes share(const Key& key, OutcomeBytes outcome, HeldFor what, std::size_t most, const TenantTag* holder);
  std::shared_ptr<Entry> find(const Key& key);
  void list(const std::shared_ptr<Entry>& entry);
  void forget(const Entry& entry);

  Usage& usage_;
  HolderShares shares_;
  std::array<Shard, 16> shards_;
};

}  // namespace once::gateway
