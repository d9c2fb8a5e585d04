#include "store/waiters.hpp"

namespace once::store {

Waiters::Waiters() {
  for (Bucket& bucket : buckets_) bucket.list.previous = bucket.list.next = &bucket.list;
}

void Waiters::notify(const OperationId& id) {
  if (listed_.load(std::memory_order_seq_cst) == 0) return;
  Bucket& bucket = bucket_of(id);
  const std::scoped_lock lock(bucket.lock);
  for (Entry* entry = bucket.list.next; entry != &bucket.list; entry = entry->next) {
    auto& ticket = static_cast<Ticket&>(*entry);
    if (ticket.id_ != id || ticket.state_ == Ticket::State::notified) continue;
    const bool waits = ticket.state_ == Ticket::State::waiting;
    ticket.state_ = Ticket::State::notified;
    if (waits) ticket.home_.post(ticket);
  }
}

Waiters::Ticket::Ticket(Waiters& waiters, const OperationId& id, Executor& home)
    : waiters_(waiters), id_(id), home_(home) {
  run = [](Work& work) {
    auto& self = static_cast<Ticket&>(work);
    self.home_.disarm(self);
    self.listed_again();
    self.caller_.resume();
  };
  fire = [](Timer& timer) { static_cast<Ticket&>(timer).timed_out(); };
  Bucket& bucket = waiters_.bucket_of(id_);
  const std::scoped_lock lock(bucket.lock);
  Entry& self = *this;
  self.previous = bucket.list.previous;
  self.next = &bucket.list;
  bucket.list.previous->next = &self;
  bucket.list.previous = &self;
  waiters_.listed_.fetch_add(1, std::memory_order_seq_cst);
}

Waiters::Ticket::~Ticket() {
  Bucket& bucket = waiters_.bucket_of(id_);
  const std::scoped_lock lock(bucket.lock);
  Entry& self = *this;
  self.previous->next = self.next;
  self.next->previous = self.previous;
  waiters_.listed_.fetch_sub(1, std::memory_order_seq_cst);
}

bool Waiters::Ticket::await_suspend(std::coroutine_handle<> caller) {
  caller_ = caller;
  const std::scoped_lock lock(waiters_.bucket_of(id_).lock);
  if (state_ == State::notified) {
    state_ = State::listed;
    return false;
  }
  state_ = State::waiting;
  home_.arm(*this, limit_);
  return true;
}

void Waiters::Ticket::end_wait() {
  const std::scoped_lock lock(waiters_.bucket_of(id_).lock);
  if (state_ != State::waiting) return;
  state_ = State::notified;
  home_.post(*this);
}

void Waiters::Ticket::listed_again() {
  const std::scoped_lock lock(waiters_.bucket_of(id_).lock);
  state_ = State::listed;
}

void Waiters::Ticket::timed_out() {
  {
    const std::scoped_lock lock(waiters_.bucket_of(id_).lock);
    // The caller is notified already: the posted work resumes it.
    if (state_ == State::notified) return;
    state_ = State::listed;
  }
  caller_.resume();
}

}  // namespace once::store
