// Events on their way to the program: a queue with a descriptor that poll() understands, and threads that wait for one
// event each.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <once/once.h>

#include "base/descriptor.hpp"
#include "gate/held.hpp"

namespace once::abi {

// An event with everything it points to.
struct OwnedEvent : once_event {
  OwnedEvent(once_event_kind the_kind, std::uint64_t the_tag);
  OwnedEvent(const OwnedEvent&) = delete;
  OwnedEvent& operator=(const OwnedEvent&) = delete;

  void set_reply(gate::Reply given);
  // The claim belongs to the program when it has the event.
  void set_claim(once_claim* given, gate::ClaimFacts facts);
  void set_outcome(gate::WorkOutcome given);
  void set_log(std::string_view line);

 private:
  gate::Reply reply_store_;
  gate::WorkOutcome outcome_store_;
  gate::ClaimFacts facts_;
  std::string line_;
  std::vector<once_field> fields_;
  once_reply reply_ = {};
  once_outcome outcome_ = {};
  once_claim_info info_ = {};
  once_log_line log_ = {};
};

once_bytes bytes_of(std::string_view text);
std::vector<once_field> fields_of(const std::vector<gate::Field>& fields);

class EventQueue {
 public:
  EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;
  ~EventQueue() { close(); }

  int descriptor() const { return ready_.get(); }
  void push(std::unique_ptr<OwnedEvent> event);
  void push_log(std::string_view line);
  std::size_t drain(once_event** events, std::size_t capacity);
  // Null: the wait timed out and the event will be dropped, or the gate is broken.
  std::unique_ptr<OwnedEvent> wait(std::uint64_t tag, std::optional<std::chrono::milliseconds> limit);
  std::uint64_t new_tag();
  // Waiting threads check again whether the gate is broken.
  void wake_all();
  // Drops the events that the program has not collected.
  void close();

 private:
  struct Waiter {
    std::condition_variable changed;
    std::unique_ptr<OwnedEvent> event;
  };

  void signal();

  Descriptor ready_;
  std::mutex mutex_;
  std::deque<std::unique_ptr<OwnedEvent>> events_;
  std::size_t log_lines_ = 0;                                               // log lines in shared_
  std::unordered_map<std::uint64_t, std::unique_ptr<OwnedEvent>> private_;  // events with a private tag that no
                                                                            // thread waits for yet
  std::unordered_map<std::uint64_t, Waiter*> waiters_;
  std::unordered_set<std::uint64_t> given_up_;
  std::uint64_t last_tag_ = 0;
};

}  // namespace once::abi
