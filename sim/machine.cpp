#include "sim/machine.hpp"

#include <fmt/format.h>

namespace once::sim {

namespace {

constexpr Duration long_ago = std::chrono::years(1);

}  // namespace

JournalMachine::JournalMachine(World& world, History& history, SkewedClock& clock, const JournalSettings& settings)
    : world_(world),
      history_(history),
      clock_(clock),
      settings_(settings),
      random_(world.draw.next()),
      log_(clock, -1, LogLevel::off, LogFormat::json),
      platter_(world.draw.next()) {}

JournalMachine::~JournalMachine() {
  if (is_open()) close(End::killed);
}

bool JournalMachine::open() {
  disk_ = std::make_unique<SimulatedDisk>(platter_);
  auto opened = JournalStore::open(*disk_, clock_, random_, log_, settings_);
  if (!opened) {
    history_.violated("the journal cannot be opened: " + opened.error().detail);
    return false;
  }
  store_ = std::move(*opened);
  history_.store_clock_at(clock_.now());
  for (const OperationId& id : history_.ids()) history_.found_after_restart(id, as_written(id));
  return true;
}

std::optional<Record> JournalMachine::look_up(const OperationId& id) {
  Op op{.verb = Verb::lookup, .id = id};
  Op* const batch = &op;
  store_->execute({&batch, 1});
  return op.record;
}

// Reads an expired record as it was written, with the clock set to before its expiry.
std::optional<Record> JournalMachine::as_written(const OperationId& id) {
  std::optional<Record> record = look_up(id);
  if (!record || record->state != State::tombstone) return record;
  clock_.jump(-long_ago);
  record = look_up(id);
  clock_.jump(long_ago);
  return record;
}

void JournalMachine::close(End end) {
  history_.owner_ended();
  // End the processes before the store is destroyed, which would close the journal in order.
  if (end == End::power_lost) {
    platter_.lose_power();
  } else {
    platter_.end_processes();
  }
  store_.reset();
  disk_.reset();
}

void JournalMachine::execute(std::span<Op* const> batch) {
  store_->execute(batch);
  if (platter_.stopped()) {
    for (Op* op : batch) answer_failed(*op, StoreFault::unavailable, "the machine has stopped");
  }
  for (const Op* op : batch) history_.store_acted(*op);
}

bool JournalMachine::answer_at_once(Op& op) {
  if (store_ == nullptr || !store_->answer_at_once(op)) return false;
  history_.store_answered_at_once(op);
  return true;
}

void JournalMachine::maintain() {
  if (!is_open() || platter_.stopped()) return;
  history_.store_clock_at(clock_.now());
  store_->maintain();
}

void JournalMachine::fail_soon() {
  if (!is_open()) return;
  const DiskCall call = world_.draw.one_of({DiskCall::write, DiskCall::sync, DiskCall::sync, DiskCall::rename,
                                            DiskCall::create, DiskCall::sync_names, DiskCall::remove});
  const DiskFault fault = world_.draw.one_of({DiskFault::failed, DiskFault::failed, DiskFault::no_space});
  world_.note(fmt::format("disk: a {} will fail", name_of(call)));
  platter_.fail(call, world_.draw.between(1, 10), fault);
}

bool JournalMachine::failed() const {
  return is_open() && store_->stats().condition == JournalStats::Condition::failed;
}

}  // namespace once::sim
