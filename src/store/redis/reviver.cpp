#include "store/redis/reviver.hpp"

#include <pthread.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <vector>

#include "base/backoff.hpp"

namespace once::redis {

namespace {

// A hanging node must not delay another one that is back.
constexpr Duration revival_patience = std::chrono::seconds(1);
constexpr Duration first_revival_pause = std::chrono::milliseconds(20);
constexpr Duration longest_revival_pause = std::chrono::milliseconds(1000);

}  // namespace

Reviver::Reviver(Context& context, Directory& directory)
    : context_(context), directory_(directory), thread_([this] { loop(); }) {
  pthread_setname_np(thread_.native_handle(), "once-redis-up");
}

Reviver::~Reviver() {
  context_.down.end();
  thread_.join();
}

void Reviver::loop() {
  Backoff pauses(first_revival_pause, longest_revival_pause);
  while (true) {
    const std::vector<std::shared_ptr<Node>> down = directory_.down();
    if (down.empty()) {
      if (context_.down.wait_for_ring() == Bell::Woken::to_end) return;
      pauses.reset();
      continue;
    }
    Hint hint;
    for (const auto& node : down) hint.ask_last.push_back(node->host());
    // If the servers cannot be discovered now, the next round tries again.
    std::ignore = directory_.find_again(directory_.now().get(), Deadline::after(revival_patience), hint);
    for (const auto& node : down) node->revive(Deadline::after(revival_patience));
    if (context_.down.pause(pauses.next()) == Bell::Woken::to_end) return;
  }
}

}  // namespace once::redis
