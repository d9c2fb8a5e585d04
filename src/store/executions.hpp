// The operations that this process is executing: their request is at the backend or about to be sent, or a library call
// does the work. The process never starts one of them again, even if the store lost its data, the lease lapsed or the
// store is down. If another request gets a claim for such an operation meanwhile, the running execution takes that
// claim over, renews it and records its outcome under it.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/bytes.hpp"
#include "store/store.hpp"

namespace once::store {

class Executions {
 public:
  Executions();
  Executions(const Executions&) = delete;
  Executions& operator=(const Executions&) = delete;

  class Entry;

  // Whether this process is executing the operation.
  bool has(const OperationId& id) { return find(id).has_value(); }
  // Whether this process is executing the operation for another request.
  bool has_other(const OperationId& id, const Fingerprint& fingerprint) {
    return find(id).value_or(fingerprint) != fingerprint;
  }

  enum class Entered : std::uint8_t {
    yes,            // no other execution in this process: continue, and leave() when the outcome is recorded
    handed_over,    // it is executing here and now has the claim: wait as for any owner
    other_request,  // another request with the same key is running here; the caller keeps the claim
  };

 private:
  // The fingerprint of the request that this process is executing; nullopt: it is not executing the operation.
  std::optional<Fingerprint> find(const OperationId& id);

  struct Link {
    Link* previous = nullptr;
    Link* next = nullptr;
  };
  struct Bucket {
    std::mutex lock;
    Link list;
  };
  static constexpr std::size_t bucket_count = 1024;

  // Uses other bytes of the id than lanes and waiters do, so that the operations of one lane use all buckets.
  Bucket& bucket_of(const OperationId& id) {
    return buckets_[(std::size_t{id.bytes[16]} << 8U | id.bytes[17]) % bucket_count];
  }

  std::array<Bucket, bucket_count> buckets_;
};

// A member of the executing object, reused for one execution after another.
class Executions::Entry final : private Link {
 public:
  explicit Entry(Executions& all) : all_(all) {}
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry() { leave(); }

  // `claim` was granted: its verdict is execute.
  Entered enter(const Op& claim);
  // The store is down, and the route executes without a claim. Such an entry cannot hand its claim to another
  // execution.
  Entered enter_unclaimed(const OperationId& id, const Fingerprint& fingerprint);

  // The fingerprint of the executing request.
  const Fingerprint& fingerprint() const { return fingerprint_; }

  // Another claim was granted while this executes: it continues under that claim, unless it has a newer one.
  void hand_over(const Op& claim);
  // The newest claim that was handed to this execution.
  std::optional<Nonce> handed() const;
  // Ends the execution, so that this process may execute the operation again. Returns the last handed(). Does nothing
  // if not entered.
  std::optional<Nonce> leave();

 private:
  friend class Executions;

  struct Claim {
    Nonce nonce;
    Fence fence;
  };
  Entered enter(const OperationId& id, const Fingerprint& fingerprint, const std::optional<Claim>& claim);
  void keep_newest(const Claim& claim);

  Executions& all_;
  bool listed_ = false;
  OperationId id_{};
  Fingerprint fingerprint_{};
  // These are guarded by the bucket's lock.
  Fence fence_{};  // of the newest claim: answers may arrive in another order than claims were made
  std::optional<Nonce> handed_;
};

}  // namespace once::store
