#include "gateway/limits/response_memory.hpp"

#include <limits>
#include <utility>

#include "base/sometimes.hpp"

namespace once::gateway {

namespace {

// A client of any usual speed has read its response, and freed memory, by then.
constexpr Duration longest_wait_for_room = std::chrono::seconds(1);
constexpr Duration room_pause = std::chrono::milliseconds(20);

}  // namespace

Task<Reserved> TagRoom::take(std::size_t bytes) {
  co_return usage_.take(HeldFor::tag, bytes, most_);
}

Task<Reserved> ResponseMemory::take(std::size_t bytes) {
  Duration waited{};
  while (usage_.take(HeldFor::response, bytes, most_for_response()) == Reserved::no) {
    if (waited >= longest_wait_for_room) {
      sometimes<"limits: no memory for a response">();
      metrics_.bodies_dropped.add();
      co_return Reserved::no;
    }
    room_.make_room();
    co_await sleep_for(home_, room_pause);
    waited += room_pause;
  }
  co_return Reserved::yes;
}

Task<std::optional<ReaderMemory::Room>> ResponseMemory::room_to_read(std::size_t bytes) {
  Duration waited{};
  std::optional<ReaderMemory::Room> room = readers_.take(caller_, bytes, most_);
  while (!room && waited < longest_wait_for_room) {
    room_.make_room();
    co_await sleep_for(home_, room_pause);
    waited += room_pause;
    room = readers_.take(caller_, bytes, most_);
  }
  if (!room) metrics_.overloaded[static_cast<std::size_t>(Overload::body_memory)].add();
  co_return room;
}

OutcomeBytes ResponseMemory::executed(const OperationId& id, const Nonce& nonce, OutcomeBytes outcome) {
  return outcomes_.share(id, nonce, std::move(outcome), HeldFor::response, std::numeric_limits<std::size_t>::max());
}

OutcomeBytes ResponseMemory::replay(const OperationId& id, const Nonce& nonce, OutcomeBytes outcome) {
  const std::size_t size = outcome->size();
  OutcomeBytes shared = outcomes_.replay(id, nonce, std::move(outcome), caller_, most_);
  if (shared) return shared;
  metrics_.overloaded[static_cast<std::size_t>(Overload::body_memory)].add();
  sometimes<"limits: no memory for a replay">();
  // If there is room, only this holder has used up its share: free its own memory, and disconnect no other client.
  if (usage_.has_room(size, most_)) {
    room_.make_own_room();
  } else {
    room_.make_room();
  }
  return nullptr;
}

}  // namespace once::gateway
