#include "gateway/limits/key_quota.hpp"

namespace once::gateway {

namespace {

// What a store takes for a key beside its outcome: two records of the journal.
constexpr std::size_t bytes_of_record = 384;

std::string describe(CallerLimit limit) {
  switch (limit) {
    case CallerLimit::in_flight: return "This caller has reached its limit of concurrent requests. Retry later.";
    case CallerLimit::new_keys: return "This caller has reached its limit of new keys per second. Retry later.";
    case CallerLimit::stored_bytes: return "This caller has used up its quota of stored responses. Retry later.";
    case CallerLimit::address_new_keys:
      return "This address has reached its limit of new keys per second. Retry later.";
    case CallerLimit::address_stored_bytes:
      return "This address has used up its quota of stored responses. Retry later.";
  }
  return "";
}

}  // namespace

bool KeyQuota::begin(const TenantTag& caller, std::chrono::nanoseconds now) {
  caller_ = CallerUse(callers_, caller, limits_.caller, now);
  return static_cast<bool>(caller_);
}

std::optional<CallerTable::Refusal> KeyQuota::take_key(std::chrono::nanoseconds now) {
  std::optional<CallerTable::Refusal> refusal;
  if (caller_) refusal = caller_.take_key(limits_.caller, now);
  if (refusal || !network_) return refusal;
  refusal = networks_.take_key(*network_, limits_.address, now);
  network_counted_ = !refusal;
  if (!refusal) return std::nullopt;
  const bool bytes = refusal->limit == CallerLimit::stored_bytes;
  refusal->limit = bytes ? CallerLimit::address_stored_bytes : CallerLimit::address_new_keys;
  if (caller_) caller_.give_back_key(limits_.caller);
  return refusal;
}

void KeyQuota::settle(const Reply& reply, Duration ttl, std::chrono::nanoseconds now) {
  const bool known = reply.known_key || reply.ending == Ending::replayed || reply.ending == Ending::attached ||
                     reply.ending == Ending::in_flight || reply.ending == Ending::mismatch ||
                     reply.attempt > Attempt{1};
  if (caller_ && known) caller_.give_back_key(limits_.caller);
  if (caller_ && reply.recorded_bytes > 0) caller_.stored(limits_.caller, reply.recorded_bytes, ttl, now);
  if (!network_) return;
  // Only what was taken: retries over the limit must not make room for new keys.
  if (known && network_counted_) networks_.give_back_key(*network_, limits_.address);
  const bool new_record = !known && reply.ending != Ending::rejected && reply.ending != Ending::bypassed;
  const std::size_t bytes = reply.recorded_bytes + (new_record ? bytes_of_record : 0);
  if (bytes > 0) networks_.stored(*network_, limits_.address, bytes, ttl, now);
}

// The limit is for new keys only. Over it, ask the store whether this key exists.
Task<std::optional<CallerTable::Refusal>> refuse_new_key(KeyQuota& quota, const OperationId& operation, Lanes& store,
                                                         http::Loop& home) {
  const auto refusal = quota.take_key(home.now());
  if (!refusal) co_return std::nullopt;
  Op known;
  known.id = operation;
  co_await store.run(known, home);
  // A store that does not answer will say so again to the request itself.
  if (known.status != OpStatus::done || known.record) co_return std::nullopt;
  co_return refusal;
}

Problem limit_problem(const CallerTable::Refusal& refusal) {
  Problem answer = problem(ProblemKind::caller_limit, describe(refusal.limit));
  answer.retry_after_seconds = refusal.retry_after_seconds;
  return answer;
}

}  // namespace once::gateway
