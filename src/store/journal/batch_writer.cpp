#include "store/journal/batch_writer.hpp"

#include <algorithm>

#include "store/journal/batch.hpp"

namespace once::journal {

namespace {

// A batch is written in pieces of this size, so that a thousand large outcomes need no buffer for all of them.
constexpr std::uint64_t most_per_write = std::uint64_t{8} << 20U;

// Of an op that does not say them, those that are read back may be as long as any.
std::uint64_t most_labels(const Op& op) {
  if (!op.tenant.empty() || !op.route.empty()) return std::min(2 + op.tenant.size() + op.route.size(), largest_labels);
  const bool writes_again = op.verb == Verb::renew || writes_outcome(op.verb) || op.verb == Verb::release;
  return writes_again ? largest_labels : 0;
}

std::uint64_t most_bytes(const Op& op) {
  const bool with_outcome = writes_outcome(op.verb) && op.outcome != nullptr;
  return frame_size(largest_put_overhead + most_labels(op) + (with_outcome ? head_sum_part + op.outcome->size() : 0));
}

}  // namespace

void BatchWriter::execute(std::span<Op* const> batch) {
  Reads reads;
  auto appender = core_.appender.lock();
  // Where it is known beforehand that something has to be read, one sync is enough for all.
  if (std::ranges::any_of(batch, [](const Op* op) { return takes_labels(*op); })) {
    reads.want_all(*appender, core_.index, batch);
  }
  for (;;) {
    if (appender->has_failed()) reads.wanted.clear();  // a journal that failed leaves the disk alone
    if (reads.wanted.empty()) batch = execute_locked(batch, reads, appender);
    if (batch.empty()) return;
    if (appender->has_failed()) continue;
    appender.unlock();
    reader_.read_all(reads);
    appender.lock();
    for (const Read& each : reads.done) appender->segments().keep_open(each.from);
  }
}

std::span<Op* const> BatchWriter::execute_locked(std::span<Op* const> batch, Reads& reads, Locked<Appender>& appender) {
  const Time now = core_.clock.now();
  while (!batch.empty() && reads.wanted.empty()) {
    std::size_t count = 0;
    std::uint64_t bytes = mark_frame_size;
    while (count < batch.size() && (count == 0 || bytes + most_bytes(*batch[count]) <= most_per_write)) {
      bytes += most_bytes(*batch[count++]);
    }
    if (!appender->has_failed()) Appender::make_room(appender, {.bytes = bytes, .ops = count}, now);
    batch = batch.subspan(Batch(core_, *appender, reads, now).execute(batch.first(count)));
  }
  if (!batch.empty()) reads.want_all(*appender, core_.index, batch.subspan(1));  // read along with what it needs
  return batch;
}

}  // namespace once::journal
