#include "store/executions.hpp"

#include "base/assert.hpp"
#include "base/sometimes.hpp"

namespace once::store {

Executions::Executions() {
  for (Bucket& bucket : buckets_) bucket.list.previous = bucket.list.next = &bucket.list;
}

std::optional<Fingerprint> Executions::find(const OperationId& id) {
  Bucket& bucket = bucket_of(id);
  const std::scoped_lock lock(bucket.lock);
  for (Link* link = bucket.list.next; link != &bucket.list; link = link->next) {
    const auto& entry = static_cast<Entry&>(*link);
    if (entry.id_ == id) return entry.fingerprint_;
  }
  return std::nullopt;
}

Executions::Entered Executions::Entry::enter(const Op& claim) {
  ONCE_ASSERT(claim.record.has_value());
  return enter(claim.id, claim.fingerprint, Claim{.nonce = claim.nonce, .fence = claim.record->fence});
}

Executions::Entered Executions::Entry::enter_unclaimed(const OperationId& id, const Fingerprint& fingerprint) {
  return enter(id, fingerprint, std::nullopt);
}

Executions::Entered Executions::Entry::enter(const OperationId& id, const Fingerprint& fingerprint,
                                             const std::optional<Claim>& claim) {
  ONCE_ASSERT(!listed_);
  Bucket& bucket = all_.bucket_of(id);
  const std::scoped_lock lock(bucket.lock);
  for (Link* link = bucket.list.next; link != &bucket.list; link = link->next) {
    auto& other = static_cast<Entry&>(*link);
    if (other.id_ != id) continue;
    if (other.fingerprint_ != fingerprint) return Entered::other_request;
    sometimes<"at work: a claim is handed to the running execution">(claim.has_value());
    if (claim) other.keep_newest(*claim);
    return Entered::handed_over;
  }
  id_ = id;
  fingerprint_ = fingerprint;
  fence_ = claim ? claim->fence : Fence{};
  handed_.reset();
  Link& self = *this;
  self.previous = bucket.list.previous;
  self.next = &bucket.list;
  bucket.list.previous->next = &self;
  bucket.list.previous = &self;
  listed_ = true;
  return Entered::yes;
}

void Executions::Entry::keep_newest(const Claim& claim) {
  sometimes<"at work: an older claim arrives after a newer one">(claim.fence <= fence_);
  if (claim.fence <= fence_) return;
  fence_ = claim.fence;
  handed_ = claim.nonce;
}

void Executions::Entry::hand_over(const Op& claim) {
  ONCE_ASSERT(listed_);
  const std::scoped_lock lock(all_.bucket_of(id_).lock);
  keep_newest({.nonce = claim.nonce, .fence = claim.record->fence});
}

std::optional<Nonce> Executions::Entry::handed() const {
  if (!listed_) return std::nullopt;
  const std::scoped_lock lock(all_.bucket_of(id_).lock);
  return handed_;
}

std::optional<Nonce> Executions::Entry::leave() {
  if (!listed_) return std::nullopt;
  const std::scoped_lock lock(all_.bucket_of(id_).lock);
  Link& self = *this;
  self.previous->next = self.next;
  self.next->previous = self.previous;
  listed_ = false;
  return handed_;
}

}  // namespace once::store
