// The store of a simulation: one shared by the gateways, or a machine with the journal on its disk.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "sim/history.hpp"
#include "sim/network.hpp"
#include "sim/process.hpp"
#include "sim/random.hpp"
#include "sim/setup.hpp"
#include "sim/simulated_disk.hpp"
#include "store/journal/journal_store.hpp"
#include "store/memory/memory_store.hpp"

namespace once::sim {

// A journal that survives its processes. Answers given while the machine stops in the middle of a call are dropped.
class JournalMachine final : public Store {
 public:
  JournalMachine(World& world, History& history, SkewedClock& clock, const JournalSettings& settings);
  ~JournalMachine() override;

  // Starts a process that opens the journal. Reports a violation and fails if that is refused.
  bool open();
  enum class End : std::uint8_t { killed, power_lost };
  void close(End end);
  bool is_open() const { return store_ != nullptr; }

  void execute(std::span<Op* const> batch) override;
  bool answer_at_once(Op& op) override;
  bool failed_for_good() const override { return failed(); }
  Traits traits() const override { return {.durable = Durable::yes, .shared = Shared::no}; }

  Search* search() override { return store_ && !platter_.stopped() ? store_->search() : nullptr; }

  void maintain();
  // Within the next calls to the disk, the machine stops, or one call fails.
  void stop_soon() { platter_.stop_at(world_.draw.between(1, 40)); }
  void fail_soon();
  bool stopped() const { return platter_.stopped(); }
  bool failed() const;
  void give_room() { settings_.max_disk = std::size_t{64} << 20U; }

 private:
  std::optional<Record> look_up(const OperationId& id);
  std::optional<Record> as_written(const OperationId& id);

  World& world_;
  History& history_;
  SkewedClock& clock_;
  JournalSettings settings_;
  SeededRandom random_;
  Log log_;
  Platter platter_;
  std::unique_ptr<SimulatedDisk> disk_;
  std::unique_ptr<JournalStore> store_;
};

}  // namespace once::sim
