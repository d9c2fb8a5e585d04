#include "http/loop.hpp"

#include <algorithm>
#include <cerrno>
#include <latch>

#include "base/assert.hpp"
#include "base/broken_invariant.hpp"
#include "http/kernel_net.hpp"

namespace once::http {

Loop::Loop() : Loop(kernel_net()) {}

Loop::Loop(Net& net) : net_(net), poller_(net.poller()), now_(net.now()) {
  next_turn_.previous = next_turn_.next = &next_turn_;
  wheel_.advance(now_tick());
}

Loop::~Loop() = default;

bool Loop::add(int fd, Pollable& pollable) {
  return poller_->add(fd, &pollable);
}

void Loop::report(const ConnectionFault& fault) {
  if (fault_listener_ != nullptr) {
    fault_listener_->connection_fault(fault);
  } else {
    note_broken_invariant(fault.invariant, fault.file, fault.line);
  }
}

void Loop::report_out_of_descriptors(DescriptorUse use, std::string_view error) {
  if (fault_listener_ != nullptr) fault_listener_->out_of_descriptors({.use = use, .error = error, .now = now_});
}

void Loop::forget(int fd, Pollable& pollable) {
  poller_->remove(fd);
  for (epoll_event& event : fetched_) {
    if (event.data.ptr == &pollable) event.events = 0;
  }
}

int Loop::wait_milliseconds() const {
  if (next_turn_.next != &next_turn_) return 0;
  const auto ticks = wheel_.ticks_to_next(now_tick());
  if (!ticks) return -1;
  const auto wake_at = (now_tick() + *ticks) * TimerWheel::tick;
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(wake_at - now_).count());
}

void Loop::run() {
  thread_.store(::pthread_self(), std::memory_order_relaxed);
  while (!stopping_.load(std::memory_order_acquire)) turn(wait_milliseconds());
}

// Between rounds this thread does not count as the loop's own: work that is posted then must wake the loop.
Loop::After Loop::run_ready() {
  thread_.store(::pthread_self(), std::memory_order_relaxed);
  turn(0);
  thread_.store(pthread_t{}, std::memory_order_relaxed);
  return stopping_.load(std::memory_order_acquire) ? After::stopped : After::running;
}

void Loop::turn(int milliseconds) {
  const int count = poller_->wait(events_, milliseconds);
  ONCE_ASSERT(count >= 0 || errno == EINTR);
  now_ = net_.now();
  fetched_ = std::span(events_).first(static_cast<std::size_t>(std::max(count, 0)));
  while (!fetched_.empty()) {
    const epoll_event event = fetched_.front();
    fetched_ = fetched_.subspan(1);
    if (event.events == 0) continue;
    renew_budget();
    if (event.data.ptr != nullptr) {
      static_cast<Pollable*>(event.data.ptr)->on_ready(event.events);
    } else {
      run_posted();
    }
  }
  // Run this before the timers: an operation that only waited for its turn must not time out.
  run_next_turn();
  renew_budget();
  wheel_.advance(now_tick());
  run_own();
}

void Loop::arm_next_turn(Timer& timer) {
  if (timer.armed()) return;
  timer.previous = next_turn_.previous;
  timer.next = &next_turn_;
  timer.previous->next = &timer;
  next_turn_.previous = &timer;
}

// Runs only what is queued now: what it queues waits for the following round.
void Loop::run_next_turn() {
  if (next_turn_.next == &next_turn_) return;
  Timer due = next_turn_;
  due.previous->next = due.next->previous = &due;
  next_turn_.previous = next_turn_.next = &next_turn_;
  while (due.next != &due) {
    Timer& timer = *due.next;
    disarm(timer);
    renew_budget();
    timer.fire(timer);
  }
}

// Includes work that is posted meanwhile: a round ends when nothing is left to do without waiting.
void Loop::run_own() {
  while (own_ != nullptr) {
    Work& work = *own_;
    own_ = work.next;
    if (own_ == nullptr) own_end_ = &own_;
    renew_budget();
    work.run(work);
  }
}

void Loop::stop() {
  stopping_.store(true, std::memory_order_release);
  wake();
}

void Loop::wake() {
  if (wake_sent_.exchange(true, std::memory_order_acq_rel)) return;
  poller_->wake();
}

void Loop::post(Work& work) {
  Work* const one = &work;
  post_all({&one, 1});
}

void Loop::post_all(std::span<Work* const> works) {
  if (works.empty()) return;
  if (::pthread_equal(thread_.load(std::memory_order_relaxed), ::pthread_self()) != 0) {
    for (Work* work : works) {
      work->next = nullptr;
      *own_end_ = work;
      own_end_ = &work->next;
    }
    return;
  }
  for (std::size_t i = 1; i < works.size(); ++i) works[i]->next = works[i - 1];  // newest first
  Work* head = posted_.load(std::memory_order_relaxed);
  do {
    works.front()->next = head;
  } while (!posted_.compare_exchange_weak(head, works.back(), std::memory_order_release, std::memory_order_relaxed));
  wake();
}

void Loop::run_posted() {
  poller_->take_wake();
  // Cleared before the list is taken, so that a later post sends its own wake-up. An exchange rather than a store: work
  // pushed by threads that saw the flag set is then visible below.
  wake_sent_.exchange(false, std::memory_order_acq_rel);
  Work* newest_first = posted_.exchange(nullptr, std::memory_order_acquire);
  Work* in_order = nullptr;
  while (newest_first != nullptr) {
    Work* next = newest_first->next;
    newest_first->next = in_order;
    in_order = newest_first;
    newest_first = next;
  }
  while (in_order != nullptr) {
    Work& work = *in_order;
    in_order = work.next;
    renew_budget();
    work.run(work);
  }
}

void wait_for_turn(Loop& loop) {
  struct Turn : Work {
    std::latch begun{1};
  } turn;
  turn.run = [](Work& work) { static_cast<Turn&>(work).begun.count_down(); };
  loop.post(turn);
  turn.begun.wait();
}

}  // namespace once::http
