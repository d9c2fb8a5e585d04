#include "store/journal/batch_writer.hpp"

#include <algorithm>
#include <utility>

#include "base/sometimes.hpp"
#include "store/journal/batch.hpp"

namespace once::journal {

namespace {

// A batch is written in pieces of this size, so that a thousand large outcomes need no buffer for all of them.
constexpr std::uint64_t most_per_write = std::uint64_t{8} << 20U;

// The longest labels of an op; if it has none, those of its record may have any length.
std::uint64_t most_labels(const Op& op) {
  if (!op.tenant.empty() || !op.route.empty()) return std::min(2 + op.tenant.size() + op.route.size(), largest_labels);
  const bool writes_again = op.verb == Verb::renew || writes_outcome(op.verb) || op.verb == Verb::release;
  return writes_again ? largest_labels : 0;
}

std::uint64_t most_bytes(const Op& op) {
  if (op.verb == Verb::append) return frame_size(chunk_head + op.outcome->size());
  const bool with_outcome = writes_outcome(op.verb) && op.outcome != nullptr;
  const std::uint64_t outcome = with_outcome ? op.outcome->size() : 0;
  return frame_size(largest_put_overhead + most_labels(op) + (writes_outcome(op.verb) ? in_chunks_part : 0) + outcome);
}

}  // namespace

void BatchWriter::execute(std::span<Op* const> batch) {
  Reads reads;
  decide(batch, reads);
  if (!reads.chunks.empty()) read_chunks(std::move(reads.chunks));
}

// Runs without the lock. If a segment was dropped meanwhile, its chunks have moved, and the op is decided again.
void BatchWriter::read_chunks(std::vector<ChunkRead> wanted) {
  while (!wanted.empty()) {
    std::vector<Op*> again;
    for (ChunkRead& each : wanted) {
      if (reader_.read_chunks(each) == RecordReader::ChunksRead::one_missing) again.push_back(each.op);
    }
    {
      const auto appender = core_.appender.lock();
      SegmentNumber last{};
      for (const ChunkRead& each : wanted) {
        for (const Pinned& from : each.from) {
          if (std::exchange(last, from.address.segment) != from.address.segment) appender->segments().keep_open(from);
        }
      }
    }
    if (again.empty()) return;
    sometimes<"journal: chunks moved while they were read">();
    Reads reads;
    decide(again, reads);
    std::erase_if(reads.chunks, [&](const ChunkRead& now) {
      const ChunkRead& before = *std::ranges::find(wanted, now.op, &ChunkRead::op);
      const auto is_unread = [&before](const Pinned& from) { return from.address == before.unread; };
      if (std::ranges::none_of(now.from, is_unread)) return false;
      core_.log.error("the journal cannot be read", {{"error", before.error}});
      answer_failed(*now.op, StoreFault::refused, before.error);
      return true;
    });
    wanted = std::move(reads.chunks);
  }
}

void BatchWriter::decide(std::span<Op* const> batch, Reads& reads) {
  auto appender = core_.appender.lock();
  // If an op may need its labels from disk, read for the whole batch first: then one sync is usually enough.
  if (std::ranges::any_of(batch, [](const Op* op) { return takes_labels(*op); })) {
    reads.want_all(*appender, core_.index, batch);
  }
  for (;;) {
    if (appender->has_failed()) reads.wanted.clear();  // a failed journal does not touch the disk
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
  if (!batch.empty()) reads.want_all(*appender, core_.index, batch.subspan(1));  // read with the first op's data
  return batch;
}

}  // namespace once::journal
