#include "event_queue.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <once/guard.hpp>

#include "base/clock.hpp"
#include "broken.hpp"

namespace once::abi {

namespace {

constexpr std::size_t most_log_lines = 1000;
constexpr std::chrono::milliseconds longest_look{500};

bool is_private(std::uint64_t tag) {
  return (tag & ONCE_PRIVATE_TAG) != 0;
}

std::uint32_t ending_number(gate::Ending ending) {
  switch (ending) {
    case gate::Ending::executed: return ONCE_EXECUTED;
    case gate::Ending::replayed: return ONCE_REPLAYED;
    case gate::Ending::in_flight: return ONCE_IN_FLIGHT;
    case gate::Ending::mismatch: return ONCE_MISMATCH;
    case gate::Ending::unknown: return ONCE_UNKNOWN;
    case gate::Ending::bypassed: return ONCE_BYPASSED;
    case gate::Ending::rejected: return ONCE_REJECTED;
    case gate::Ending::passed: return ONCE_PASSED;
  }
  return ONCE_REJECTED;
}

std::uint32_t settled_number(gate::Settled settled) {
  switch (settled) {
    case gate::Settled::none: return ONCE_SETTLED_NONE;
    case gate::Settled::succeeded: return ONCE_SETTLED_SUCCEEDED;
    case gate::Settled::failed: return ONCE_SETTLED_FAILED;
    case gate::Settled::unknown: return ONCE_SETTLED_UNKNOWN;
    case gate::Settled::released: return ONCE_SETTLED_RELEASED;
    case gate::Settled::lost: return ONCE_SETTLED_LOST;
    case gate::Settled::unrecorded: return ONCE_SETTLED_UNRECORDED;
  }
  return ONCE_SETTLED_NONE;
}

std::uint32_t level_in(std::string_view line) {
  if (line.contains(R"("level":"error")")) return ONCE_ERROR;
  if (line.contains(R"("level":"warn")")) return ONCE_WARN;
  if (line.contains(R"("level":"debug")")) return ONCE_DEBUG;
  return ONCE_INFO;
}

// The program has not received this claim, so destroy it.
void drop(std::unique_ptr<OwnedEvent> event) {
  if (event->claim != nullptr) once_claim_free(event->claim);
}

}  // namespace

once_bytes bytes_of(std::string_view text) {
  return {.data = text.data(), .size = text.size()};
}

std::vector<once_field> fields_of(const std::vector<gate::Field>& fields) {
  std::vector<once_field> all;
  all.reserve(fields.size());
  for (const gate::Field& field : fields) all.push_back({.name = bytes_of(field.name), .value = bytes_of(field.value)});
  return all;
}

OwnedEvent::OwnedEvent(once_event_kind the_kind, std::uint64_t the_tag) : once_event() {
  kind = the_kind;
  tag = the_tag;
}

void OwnedEvent::set_reply(gate::Reply given) {
  reply_store_ = std::move(given);
  fields_ = fields_of(reply_store_.fields);
  reply_ = {.status = reply_store_.status,
            .ending = ending_number(reply_store_.ending),
            .settled = settled_number(reply_store_.settled),
            .attempt = reply_store_.attempt,
            .reason = bytes_of(reply_store_.reason),
            .fields = fields_.data(),
            .field_count = fields_.size(),
            .body = bytes_of(reply_store_.body),
            .body_is_yours = reply_store_.body_is_yours ? 1 : 0};
  reply = &reply_;
}

void OwnedEvent::set_claim(once_claim* given, gate::ClaimFacts facts) {
  facts_ = std::move(facts);
  fields_ = fields_of(facts_.fields);
  info_ = {.attempt = facts_.attempt,
           .is_protected = facts_.token.empty() ? 0U : 1U,
           .fence = facts_.fence,
           .token = bytes_of(facts_.token),
           .operation = bytes_of(facts_.operation),
           .request_id = bytes_of(facts_.request_id),
           .fields = fields_.data(),
           .field_count = fields_.size(),
           .max_body = facts_.max_body};
  claim = given;
  claim_info = &info_;
}

void OwnedEvent::set_outcome(gate::WorkOutcome given) {
  outcome_store_ = std::move(given);
  const gate::WorkOutcome& from = outcome_store_;
  outcome_ = {.status = bytes_of(from.absent ? "absent" : guard::name(from.status)),
              .reason = bytes_of(guard::name(from.reason)),
              .detail = bytes_of(from.detail),
              .value = bytes_of(from.value ? std::string_view(*from.value) : std::string_view()),
              .cached = from.cached() ? 1U : 0U,
              .attempt = from.attempt,
              .fence = from.fence,
              .retry_after_ms = static_cast<std::uint64_t>(from.retry_after.count()),
              .code = from.code};
  outcome = &outcome_;
}

void OwnedEvent::set_log(std::string_view line) {
  line_ = line;
  log_ = {.level = level_in(line), .line = bytes_of(line_)};
  log = &log_;
}

EventQueue::EventQueue() : ready_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void EventQueue::signal() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(ready_.get(), &one, sizeof one);  // full: it is readable already
}

void EventQueue::push(std::unique_ptr<OwnedEvent> event) {
  const std::uint64_t tag = event->tag;
  std::unique_lock lock(mutex_);
  if (!is_private(tag)) {
    events_.push_back(std::move(event));
    if (events_.size() == 1) signal();
    return;
  }
  const auto waiter = waiters_.find(tag);
  if (waiter != waiters_.end()) {
    waiter->second->event = std::move(event);
    waiter->second->changed.notify_one();
  } else if (given_up_.erase(tag) > 0) {
    lock.unlock();
    drop(std::move(event));
  } else {
    private_[tag] = std::move(event);
  }
}

void EventQueue::push_log(std::string_view line) {
  auto event = std::make_unique<OwnedEvent>(ONCE_EVENT_LOG, 0);
  event->set_log(line);
  const std::scoped_lock lock(mutex_);
  if (log_lines_ == most_log_lines) return;
  ++log_lines_;
  events_.push_back(std::move(event));
  if (events_.size() == 1) signal();
}

std::size_t EventQueue::drain(once_event** events, std::size_t capacity) {
  const std::scoped_lock lock(mutex_);
  std::size_t count = 0;
  while (count < capacity && !events_.empty()) {
    if (events_.front()->kind == ONCE_EVENT_LOG) --log_lines_;
    events[count++] = events_.front().release();
    events_.pop_front();
  }
  std::uint64_t seen = 0;
  if (events_.empty()) [[maybe_unused]]
    const ssize_t got = ::read(ready_.get(), &seen, sizeof seen);
  return count;
}

std::unique_ptr<OwnedEvent> EventQueue::wait(std::uint64_t tag, std::optional<std::chrono::milliseconds> limit) {
  std::unique_lock lock(mutex_);
  const auto here = private_.find(tag);
  if (here != private_.end()) {
    std::unique_ptr<OwnedEvent> event = std::move(here->second);
    private_.erase(here);
    return event;
  }
  Waiter waiter;
  waiters_[tag] = &waiter;
  const auto over = [&waiter] { return waiter.event != nullptr || is_broken(); };
  const auto began = monotonic_now();
  std::chrono::nanoseconds left = limit.value_or(longest_look);
  // wake_all() takes no lock, so it may miss a waiting thread: check at intervals.
  while (left > std::chrono::nanoseconds::zero() && !over()) {
    waiter.changed.wait_for(lock, std::min<std::chrono::nanoseconds>(left, longest_look), over);
    if (limit) left = *limit - (monotonic_now() - began);
  }
  waiters_.erase(tag);
  if (!waiter.event) given_up_.insert(tag);
  return std::move(waiter.event);
}

std::uint64_t EventQueue::new_tag() {
  const std::scoped_lock lock(mutex_);
  return ONCE_PRIVATE_TAG | ++last_tag_;
}

void EventQueue::wake_all() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  signal();
  if (!lock.owns_lock()) return;
  for (const auto& [tag, waiter] : waiters_) waiter->changed.notify_one();
}

void EventQueue::close() {
  std::vector<std::unique_ptr<OwnedEvent>> left;
  {
    const std::scoped_lock lock(mutex_);
    for (auto& event : events_) left.push_back(std::move(event));
    for (auto& [tag, event] : private_) left.push_back(std::move(event));
    events_.clear();
    private_.clear();
  }
  for (auto& event : left) drop(std::move(event));
}

}  // namespace once::abi
