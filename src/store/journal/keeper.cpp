#include "store/journal/keeper.hpp"

#include <pthread.h>

#include <chrono>

namespace once::journal {

namespace {

constexpr auto pause = std::chrono::milliseconds(100);

}  // namespace

JournalKeeper::JournalKeeper(JournalStore& store) : store_(store), thread_([this] { run(); }) {
  pthread_setname_np(thread_.native_handle(), "once-keeper");
}

JournalKeeper::~JournalKeeper() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void JournalKeeper::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, pause, [this] { return stopping_; })) {
    lock.unlock();
    store_.maintain();
    lock.lock();
  }
}

}  // namespace once::journal
