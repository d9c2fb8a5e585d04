// The backend, as one gateway reaches it. It does the work, or not, and answers, or not, whatever becomes of the
// gateway; each execution is written down in the history.
#pragma once

#include <coroutine>
#include <cstdint>
#include <map>
#include <string>

#include "gateway/backend.hpp"
#include "sim/history.hpp"
#include "sim/setup.hpp"
#include "sim/world.hpp"

namespace once::sim {

class SimBackend final : public Backend {
 public:
  SimBackend(World& world, History& history, const Setup& setup, ProcessExecutor& home)
      : world_(world), history_(history), setup_(setup), home_(home) {}

  Task<BackendAnswer> send(const BackendRequest& request) override;

  void cut_off();
  // Nothing goes wrong from now on.
  void heal() { healed_ = true; }

 private:
  enum class Plan : std::uint8_t { answers, refuses, fails, dies_before, dies_after, truncates, hangs };
  class Sending;

  Plan draw_plan();
  void begin(Sending& sending);
  void arrive(std::uint64_t number, Asked asked, Nonce nonce, std::uint64_t fence, Plan plan);
  void end(std::uint64_t number, Delivery delivery, int status, unsigned execution);

  World& world_;
  History& history_;
  const Setup& setup_;
  ProcessExecutor& home_;
  std::map<std::uint64_t, Sending*> sending_;
  std::uint64_t sent_ = 0;
  bool cut_off_ = false;
  bool healed_ = false;
};

}  // namespace once::sim
