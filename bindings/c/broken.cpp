#include "broken.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/assert.hpp"
#include "event_queue.hpp"

namespace once::abi {

namespace {

// Trivial types only: threads of the library may still run when the process destroys its globals.
constexpr std::size_t text_size = 4096;
thread_local std::array<char, text_size> last_error{};
thread_local unsigned inside_calls = 0;
std::atomic<bool> found = false;   // a thread writes broken_text, or has written it
std::atomic<bool> broken = false;  // broken_text is complete
std::array<char, 512> broken_text{};

struct Queues {
  std::mutex mutex;
  std::vector<std::weak_ptr<EventQueue>> open;
};

// Never destroyed, for the same reason.
Queues& queues() {
  static Queues* const all = new Queues();
  return *all;
}

void keep_text(std::span<char> room, std::string_view text) {
  const std::size_t size = std::min(text.size(), room.size() - 1);
  std::memcpy(room.data(), text.data(), size);
  room[size] = '\0';
}

void wake_queues() {
  const std::unique_lock lock(queues().mutex, std::try_to_lock);
  if (!lock.owns_lock()) return;
  for (const auto& each : queues().open) {
    if (const auto queue = each.lock()) queue->wake_all();
  }
}

// On a thread of the program, the exception is caught at the C interface. A thread of the library stops here for
// good: no later step is executed, and no destructor undoes earlier ones.
void on_broken(const char* line) {
  if (!found.exchange(true)) {
    keep_text(broken_text, line);
    broken.store(true);
  }
  while (!broken.load()) std::this_thread::yield();
  wake_queues();
  if (inside_calls > 0) throw std::logic_error(line);
  while (true) ::pause();
}

}  // namespace

bool is_broken() {
  return broken.load();
}

void handle_broken_invariants(const std::shared_ptr<EventQueue>& queue) {
  on_broken_invariant(on_broken);
  const std::scoped_lock lock(queues().mutex);
  std::erase_if(queues().open, [](const auto& each) { return each.expired(); });
  queues().open.push_back(queue);
}

Inside::Inside() {
  ++inside_calls;
}

Inside::~Inside() {
  --inside_calls;
}

once_status fail(once_status status, std::string_view text) noexcept {
  keep_text(last_error, text);
  return status;
}

once_status fail_thrown(const std::string& what) noexcept {
  if (is_broken()) return fail_broken();
  if (what == "std::bad_alloc") return fail(ONCE_NO_MEMORY, "out of memory");
  return fail(ONCE_UNAVAILABLE, what.empty() ? "an unexpected failure" : what);
}

once_status fail_broken() noexcept {
  return fail(ONCE_BROKEN, broken_text.data());
}

}  // namespace once::abi

const char* once_last_error(void) {
  return once::abi::last_error.data();
}
