// A journal is opened on any bytes: it says what is damaged, or it serves, and what it leaves behind can be opened
// again. What it refuses, repair makes into something that opens.
//
// The input: 's' to have the checksums put right first (else the checksum stops nearly everything), the length of the
// first segment in two bytes, that segment, and the second one if there is more.
#include <cstring>
#include <string>

#include "base/crc32c.hpp"
#include "store/journal/repair.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/unit/support/journal_machine.hpp"

namespace {

namespace journal = once::journal;
using once::store::Op;
using once::support::JournalMachine;

template <class Number>
Number number_at(std::string_view bytes, std::size_t at) {
  Number value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Magic, number, writer's version and all checksums as they should be, and the end of the segment before it within 64
// KiB. Marks say no more than Once would write: that what lies before them is on disk.
std::string sealed(std::string_view content, std::uint32_t number) {
  std::string bytes(content);
  if (bytes.size() < journal::header_size) return bytes;
  bytes.replace(0, 8, "ONCEJRNL");
  const std::uint64_t wide = number;
  std::memcpy(bytes.data() + 32, &wide, sizeof wide);
  bytes.replace(42, 6, 6, '\0');
  bytes[62] = static_cast<char>(journal::format_version - (static_cast<unsigned>(bytes[62]) & 1U));
  const auto view = [&](std::size_t at, std::size_t size) { return std::string_view(bytes).substr(at, size); };
  const std::uint32_t salt = once::base::crc32c(view(16, 48), once::base::crc32c(view(0, 12)));
  std::memcpy(bytes.data() + 12, &salt, sizeof salt);
  for (std::size_t at = journal::header_size; at + journal::frame_overhead < bytes.size();) {
    const auto length = number_at<std::uint32_t>(bytes, at);
    const std::size_t payload = at + journal::frame_overhead;
    if (length == 0 || length > bytes.size() - payload) break;
    if (bytes[payload] == 3 && length == 24) {
      const std::uint64_t durable = std::min<std::uint64_t>(number_at<std::uint64_t>(bytes, payload + 8), at);
      std::memcpy(bytes.data() + payload + 8, &durable, sizeof durable);
    }
    const std::uint32_t sum = once::base::crc32c(view(payload, length), once::base::crc32c(view(at, 4), salt));
    std::memcpy(bytes.data() + at + 4, &sum, sizeof sum);
    at += journal::frame_size(length);
  }
  return bytes;
}

void put_segments(JournalMachine& machine, std::string_view bytes) {
  once::fuzz::Input input(bytes);
  const bool seal = input.number<char>() == 's';
  const std::string_view first = input.text(input.number<std::uint16_t>());
  const std::string_view second = input.rest();
  const std::string one = seal ? sealed(first, 1) : std::string(first);
  machine.platter.put("0000000001.segment", one);
  if (second.empty()) return;
  machine.platter.put("0000000002.segment", seal ? sealed(second, 2) : std::string(second));
}

bool is_of_another_version(const JournalMachine& machine) {
  for (const std::string& name : machine.platter.names()) {
    const auto header = journal::decode_header(machine.platter.content(name));
    if (!header && header.error() != journal::HeaderFault::damaged) return true;
  }
  return false;
}

// Of another version this program does not know what is damaged: it is neither opened nor repaired, and stays as it is.
void refuse_other_version(JournalMachine& machine) {
  once::sim::SimulatedDisk disk(machine.platter);
  once::sim::SeededRandom random(2);
  const auto ignored = [](const journal::SegmentReport&) {};
  ONCE_ASSERT(!machine.start() && !machine.refusal.empty());
  ONCE_ASSERT(!journal::verify(disk, ignored) && !journal::repair(disk, machine.clock, random, ignored));
  ONCE_ASSERT(is_of_another_version(machine));
}

bool is_whole(JournalMachine& machine) {
  once::sim::SimulatedDisk disk(machine.platter);
  const auto report = journal::verify(disk, [](const journal::SegmentReport&) {});
  ONCE_ASSERT(report.has_value());
  for (const journal::Damage& damage : report->damage) ONCE_ASSERT(!damage.file.empty() && !damage.what.empty());
  return report->damage.empty();
}

void repair(JournalMachine& machine) {
  once::sim::SimulatedDisk disk(machine.platter);
  once::sim::SeededRandom random(2);
  const auto report = journal::repair(disk, machine.clock, random, [](const journal::SegmentReport&) {});
  ONCE_ASSERT(report.has_value() && !report->damage.empty());
}

void serve(JournalMachine& machine) {
  // The chunks of the seed `streams`, and of what is made of it.
  once::base::OperationId id;
  id.bytes.fill(1);
  const Op read = machine.run(once::support::read_op(id));
  // Two ids that differ in their last bytes only are one to the index.
  const bool collided = read.error.contains("index does not match");
  ONCE_ASSERT(collided || read.status == once::store::OpStatus::done);
  ONCE_ASSERT(read.record || read.chunks.empty());
  const Op claimed = machine.run(once::support::claim_op(1, 1));
  ONCE_ASSERT(claimed.status == once::store::OpStatus::done && claimed.verdict == once::core::Verdict::execute);
  ONCE_ASSERT(machine.run(once::support::finish_op(1, 1, once::support::outcome_of(40))).status ==
              once::store::OpStatus::done);
  machine.store().maintain();
}

}  // namespace

FUZZ(bytes) {
  JournalMachine machine(
      1, {.segment_bytes = 16384, .max_disk = 1U << 20U, .max_memory = 1U << 20U, .cache_bytes = 1U << 16U});
  put_segments(machine, bytes);
  if (is_of_another_version(machine)) {
    refuse_other_version(machine);
    return;
  }
  const bool whole = is_whole(machine);
  if (!machine.start()) {
    ONCE_ASSERT(!whole && !machine.refusal.empty());
    repair(machine);
    ONCE_ASSERT(is_whole(machine));
    ONCE_ASSERT(machine.start());
  } else {
    ONCE_ASSERT(whole);
  }
  serve(machine);
  machine.close();
  ONCE_ASSERT(machine.start());
  const Op replayed = machine.run(once::support::claim_op(1, 2));
  ONCE_ASSERT(replayed.status == once::store::OpStatus::done && replayed.verdict == once::core::Verdict::replay);
}
