#include "store/server/sweeper.hpp"

#include <pthread.h>

namespace once::store {

namespace {

// A pause between batches, so that a long backlog does not slow the server down for requests.
constexpr Duration between_batches = std::chrono::milliseconds(50);

}  // namespace

Sweeper::Sweeper(ServerStore& store, const ServerSettings& settings, const Log& log)
    : store_(store), settings_(settings), log_(log), thread_([this] { loop(); }) {
  pthread_setname_np(thread_.native_handle(), "once-sweeper");
}

Sweeper::~Sweeper() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  thread_.join();
}

Sweeper::Paused Sweeper::pause(Duration how_long) {
  std::unique_lock lock(mutex_);
  return wake_.wait_for(lock, how_long, [this] { return stopping_; }) ? Paused::stopped : Paused::whole;
}

void Sweeper::loop() {
  while (pause(settings_.sweep_every) == Paused::whole) sweep_all();
}

void Sweeper::sweep_all() {
  do {
    const auto swept = store_.sweep(settings_.sweep_batch);
    if (!swept) {
      log_.warn("expired records not removed; retrying later", {{"error", swept.error().detail}});
      return;
    }
    if (swept->more == More::no) return;
  } while (pause(between_batches) == Paused::whole);
}

}  // namespace once::store
