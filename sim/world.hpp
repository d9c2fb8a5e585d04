// Virtual time for a simulation: events happen in the order of their time, and events of the same time in the order in
// which they were scheduled. Nothing waits, and all randomness comes from the seed, so a seed determines everything.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/executor.hpp"
#include "sim/draw.hpp"

namespace once::sim {

// The events, in order. Kept only on request, because they are many. The hash always covers all of them.
class Trace {
 public:
  explicit Trace(bool kept) : kept_(kept) {}

  void add(Time now, const std::string& line);
  const std::vector<std::string>& lines() const { return lines_; }
  std::uint64_t hash() const { return hash_; }

 private:
  const bool kept_;
  std::vector<std::string> lines_;
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

class World {
 public:
  World(std::uint64_t seed, bool keep_trace) : draw(seed), trace(keep_trace) {}

  Draw draw;
  Trace trace;

  static constexpr Time beginning{Duration(1'767'225'600'000)};  // 2026
  Time now() const { return now_; }
  void note(const std::string& line) { trace.add(now_, line); }

  void after(Duration delay, std::function<void()> event);
  // Runs until no event is left, or until that time.
  void run_until(Time end);

 private:
  Time now_ = beginning;
  std::uint64_t asked_ = 0;
  std::map<std::pair<Time, std::uint64_t>, std::function<void()>> events_;
};

// The event loop of one process. When the process dies, its waiting coroutines run to their end at once, without the
// rest of the simulation: an unfinished coroutine would never be freed.
class ProcessExecutor final : public Executor {
 public:
  explicit ProcessExecutor(World& world) : world_(world) {}

  void post(Work& work) override;
  void arm(Timer& timer, Duration after) override;
  void disarm(Timer& timer) override;

  // Pauses, like a stopped process or a swapping machine, and then continues.
  void pause(Duration length) { paused_until_ = std::max(paused_until_, world_.now() + length); }
  bool paused() const { return world_.now() < paused_until_; }

  // Runs everything that is ready and every timer, whenever due, until no event is left.
  void run_out();

 private:
  void run_ready();
  void fire(Timer& timer);
  void wake_after(Duration delay, std::function<void()> event);

  World& world_;
  std::vector<Work*> ready_;
  std::map<Timer*, std::uint64_t> armed_;  // with the number of the event that fires it
  std::vector<Timer*> order_;              // armed, oldest first
  std::uint64_t arms_ = 0;
  bool running_ = false;
  bool over_ = false;
  Time paused_until_{};
};

}  // namespace once::sim
