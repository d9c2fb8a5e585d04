// Virtual time for everything in a simulation: events happen in the order of their time, and of two at the same time
// the one that was asked for first. Nothing waits, nothing is drawn but from the seed, so a seed is a whole history.
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

// What happened, in order. Written down only if asked for: it is long. The hash is of all of it either way.
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
  // Until nothing is left, or that time has come.
  void run_until(Time end);

 private:
  Time now_ = beginning;
  std::uint64_t asked_ = 0;
  std::map<std::pair<Time, std::uint64_t>, std::function<void()>> events_;
};

// The event loop of one process. When the process dies, what waits in it is run to its end at once, cut off from the
// rest of the world: a coroutine that was never finished would never be freed.
class ProcessExecutor final : public Executor {
 public:
  explicit ProcessExecutor(World& world) : world_(world) {}

  void post(Work& work) override;
  void arm(Timer& timer, Duration after) override;
  void disarm(Timer& timer) override;

  // It stands still, as a stopped process or a machine that swaps does, and then goes on.
  void pause(Duration length) { paused_until_ = std::max(paused_until_, world_.now() + length); }
  bool paused() const { return world_.now() < paused_until_; }

  // Everything that is ready and every timer, whenever due, until there is nothing left.
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
