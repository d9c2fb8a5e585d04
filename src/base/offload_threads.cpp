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
  std::string owner(job.owner());
  std::deque<OffloadJob*>& own = state->jobs[owner];
  own.push_back(&job);
  if (own.size() == 1) state->turns.push_back(std::move(owner));
  while (state->threads.size() < thread_count) state->threads.emplace_back([this] { work(); });
  wake_.notify_one();
}

OffloadJob& OffloadThreads::take_next(State& state) {
  std::string owner = std::move(state.turns.front());
  state.turns.pop_front();
  const auto own = state.jobs.find(owner);
  OffloadJob& job = *own->second.front();
  own->second.pop_front();
  if (own->second.empty()) {
    state.jobs.erase(own);
  } else {
    state.turns.push_back(std::move(owner));
  }
  return job;
}

void OffloadThreads::work() {
  auto state = state_.lock();
  while (true) {
    state.wait(wake_, [&] { return state->ending || !state->turns.empty(); });
    if (state->turns.empty()) return;
    OffloadJob& job = take_next(*state);
    state.unlock();
    job.execute();
    job.executed();
    state.lock();
  }
}

}  // namespace once::base
