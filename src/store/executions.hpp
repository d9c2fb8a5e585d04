// The operations that this process has at work: their request has gone to the backend, or is about to; or a library
// call is doing the work. Whatever the store says, because it came back empty, because a lease lapsed or because it is
// down, this process does not start one of them again. The claim that another request was given for it meanwhile is
// handed to the execution at work, which renews it and records its outcome under it.
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

  // Whether this process has the operation at work.
  bool has(const OperationId& id);

  enum class Entered : std::uint8_t {
    yes,            // nobody else here has it at work: go on, and leave() when its outcome is recorded
    handed_over,    // it is at work here, and has the claim now: wait as for any owner
    other_request,  // another request with the same key is at work here; the claim is still the caller's
  };

 private:
  struct Link {
    Link* previous = nullptr;
    Link* next = nullptr;
  };
  struct Bucket {
    std::mutex lock;
    Link list;
  };
  static constexpr std::size_t bucket_count = 1024;

  // Lanes and waiters go by other bytes of the id.
  Bucket& bucket_of(const OperationId& id) {
    return buckets_[(std::size_t{id.bytes[16]} << 8U | id.bytes[17]) % bucket_count];
  }

  std::array<Bucket, bucket_count> buckets_;
};

// One after the other; lives in whoever executes.
class Executions::Entry final : private Link {
 public:
  explicit Entry(Executions& all) : all_(all) {}
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry() { leave(); }

  // `claim` was answered with Verdict::execute.
  Entered enter(const Op& claim);
  // The store is down, and the route executes without a claim. Nothing can be handed over by this one.
  Entered enter_unclaimed(const OperationId& id, const Fingerprint& fingerprint);

  // The newest claim that was handed to this execution.
  std::optional<Nonce> handed() const;
  // The next request here may execute it. Returns handed() as it was to the end. Does nothing if not entered.
  std::optional<Nonce> leave();

 private:
  friend class Executions;

  struct Claim {
    Nonce nonce;
    Fence fence;
  };
  Entered enter(const OperationId& id, const Fingerprint& fingerprint, const std::optional<Claim>& claim);

  Executions& all_;
  bool listed_ = false;
  OperationId id_{};
  Fingerprint fingerprint_{};
  // Guarded by the bucket's lock.
  Fence fence_{};  // of the newest claim; answers may come in another order than the claims were made
  std::optional<Nonce> handed_;
};

}  // namespace once::store
