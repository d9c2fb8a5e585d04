#include "http/timer_wheel.hpp"

#include <algorithm>
#include <bit>

namespace once::http {

namespace {

constexpr Duration longest = std::chrono::days(3650);  // "for ever", without overflow

}  // namespace

TimerWheel::TimerWheel() {
  for (Timer& head : slots_) head.previous = head.next = &head;
}

void TimerWheel::link(Timer& head, Timer& timer) {
  timer.previous = head.previous;
  timer.next = &head;
  head.previous->next = &timer;
  head.previous = &timer;
}

void TimerWheel::unlink(Timer& timer) {
  timer.previous->next = timer.next;
  timer.next->previous = timer.previous;
  timer.previous = timer.next = nullptr;
}

void TimerWheel::arm(Timer& timer, std::int64_t now, Duration after) {
  if (timer.armed()) unlink(timer);
  // Round up and add one tick, because part of the current tick has passed: a timer must not fire early.
  const Duration wait = std::clamp(after, Duration::zero(), longest);
  timer.due = std::max(now, fired_until_) + (wait + tick - Duration(1)) / tick + 1;
  const std::size_t slot = slot_of(timer.due);
  link(slots_[slot], timer);
  occupied_[slot / word_bits] |= std::uint64_t{1} << (slot % word_bits);
}

void TimerWheel::disarm(Timer& timer) {
  if (timer.armed()) unlink(timer);
}

void TimerWheel::fire_slot(std::size_t slot, std::int64_t now) {
  Timer& head = slots_[slot];
  // Due timers move to a list of their own first: firing one may change the slot, or disarm another due timer.
  Timer due;
  due.previous = due.next = &due;
  for (Timer* timer = head.next; timer != &head;) {
    Timer* next = timer->next;
    if (timer->due <= now) {
      unlink(*timer);
      link(due, *timer);
    }
    timer = next;
  }
  if (head.next == &head) occupied_[slot / word_bits] &= ~(std::uint64_t{1} << (slot % word_bits));
  while (due.next != &due) {
    Timer& timer = *due.next;
    unlink(timer);
    timer.fire(timer);
  }
}

void TimerWheel::advance(std::int64_t now) {
  if (now <= fired_until_) return;
  const std::int64_t turn = static_cast<std::int64_t>(slot_count);
  std::int64_t tick_number = std::max(fired_until_ + 1, now - turn + 1);
  fired_until_ = now;
  for (; tick_number <= now; ++tick_number) {
    const std::size_t slot = slot_of(tick_number);
    if ((occupied_[slot / word_bits] >> (slot % word_bits) & 1U) != 0) fire_slot(slot, now);
  }
}

std::optional<std::int64_t> TimerWheel::ticks_to_next(std::int64_t now) const {
  const std::size_t from = slot_of(now + 1);
  for (std::size_t i = 0; i <= occupied_.size(); ++i) {
    const std::size_t word = (from / word_bits + i) % occupied_.size();
    std::uint64_t bits = occupied_[word];
    if (i == 0) bits &= ~std::uint64_t{0} << (from % word_bits);
    if (i == occupied_.size()) bits &= (std::uint64_t{1} << (from % word_bits)) - 1;
    if (bits == 0) continue;
    const std::size_t slot = word * word_bits + static_cast<std::size_t>(std::countr_zero(bits));
    return static_cast<std::int64_t>((slot + slot_count - from) % slot_count) + 1;
  }
  return std::nullopt;
}

}  // namespace once::http
