#include "base/offload_threads.hpp"

#include <utility>

namespace once::base {

namespace {

// One body is processed by one thread at a time, so a second thread keeps a large body from delaying all others.
constexpr std::size_t thread_count = 2;

}  // namespace

OffloadThreads::~OffloadThreads() {
  std::vector<std::thread> threads;
  {
    const auto state = state_.lock();
    state->ending = true;
    threads = std::move(state->threads);
  }
  wake_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void OffloadThreads::add(OffloadJob& job) {
  const auto state = state_.lock();
  state->jobs.push_back(&job);
  while (state->threads.size() < thread_count) state->threads.emplace_back([this] { work(); });
  wake_.notify_one();
}

void OffloadThreads::work() {
  auto state = state_.lock();
  while (true) {
    state.wait(wake_, [&] { return state->ending || !state->jobs.empty(); });
    if (state->jobs.empty()) return;
    OffloadJob& job = *state->jobs.front();
    state->jobs.pop_front();
    state.unlock();
    job.execute();
    job.executed();
    state.lock();
  }
}

}  // namespace once::base
