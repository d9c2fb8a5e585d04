#include "gateway/spool/spool_threads.hpp"

#include <utility>

namespace once::gateway {

namespace {

// A body is written, hashed and read by one at a time, so a second thread keeps a large one from delaying all others.
constexpr std::size_t thread_count = 2;

}  // namespace

SpoolThreads::~SpoolThreads() {
  std::vector<std::thread> threads;
  {
    const auto state = state_.lock();
    state->ending = true;
    threads = std::move(state->threads);
  }
  wake_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void SpoolThreads::add(SpoolJob& job) {
  const auto state = state_.lock();
  state->jobs.push_back(&job);
  while (state->threads.size() < thread_count) state->threads.emplace_back([this] { work(); });
  wake_.notify_one();
}

void SpoolThreads::work() {
  auto state = state_.lock();
  while (true) {
    state.wait(wake_, [&] { return state->ending || !state->jobs.empty(); });
    if (state->jobs.empty()) return;
    SpoolJob& job = *state->jobs.front();
    state->jobs.pop_front();
    state.unlock();
    job.execute();
    job.executed();
    state.lock();
  }
}

}  // namespace once::gateway
