#include "store/journal/recovery.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/sometimes.hpp"
#include "store/journal/frame_reader.hpp"

namespace once::journal {

namespace {

constexpr auto progress_every = std::chrono::seconds(1);
constexpr std::uint64_t least_room = 4096;  // for a first segment on a full disk

std::unexpected<Error> store_error(std::string detail) {
  return std::unexpected(Error{.source = ErrorSource::store, .retryable = Retryable::no, .detail = std::move(detail)});
}

std::unexpected<Error> damaged(const Damage& damage) {
  return store_error(
      fmt::format("the journal is damaged: {}\n`once journal verify` lists all damage; `once journal repair` keeps the "
                  "intact records",
                  to_text(damage)));
}

// Whether the record at this place, or its removal, has no chunks.
bool ends_chunks(ExpirySecond expires, Place place) {
  const BodyKept kept = place.is_in_chunks() ? BodyKept::in_chunks : BodyKept::yes;
  return expires == removed_already || !may_have_chunks(place.state(), kept);
}

// A record or chunk after the last place that is known to be on disk.
struct Doubtful {
  std::uint64_t offset = 0;
  std::string payload;
};

// Collects records of one shard, to index them together: nearly every insert is a cache miss, and several can be in
// flight at once.
class Gathered {
 public:
  enum class Room : std::uint8_t { left, none };
  // Adds a record or a chunk. `none`: index the collection before the next one.
  Room add(const OperationId& id, ExpirySecond expires, Place place) {
    notes_[count_++] = {.id = id, .expires = expires, .place = place};
    return count_ == notes_.size() ? Room::none : Room::left;
  }
  Room add_chunk(const ChunkName& name, Place place) {
    chunks_.emplace_back(name, place);
    return chunks_.size() == notes_.size() ? Room::none : Room::left;
  }

  // Of two records of one key, the later place wins, whichever was read first.
  void put_into(Index& index, Shard& shard, RecoveredChunks& chunks) {
    const std::span notes = std::span(notes_).first(std::exchange(count_, 0));
    for (const Note& note : notes) shard.slots.fetch(note.id);
    for (const Note& note : notes) {
      SlotTable::Slot* slot = shard.slots.find(note.id);
      if (slot == nullptr) {
        index.insert(shard, note.id, note.expires, note.place);
      } else if (slot->place < note.place) {
        slot->place = note.place;
        slot->expires = note.expires;
      }
      if (!chunks.empty() && ends_chunks(note.expires, note.place)) chunks.end_before(note.id, note.place);
    }
    for (const auto& [name, place] : chunks_) {
      const SlotTable::Slot* slot = shard.slots.find(name.id);
      const bool ended = slot != nullptr && slot->place > place && ends_chunks(slot->expires, slot->place);
      if (!ended) chunks.add(name, place);
    }
    chunks_.clear();
  }

 private:
  struct Note {
    OperationId id;
    ExpirySecond expires{};
    Place place;
  };
  std::array<Note, 64> notes_;
  std::size_t count_ = 0;
  std::vector<std::pair<ChunkName, Place>> chunks_;
};

// Segments are read by several threads, in any order.
class Reading {
 public:
  Reading(Disk& disk, const Chain& chain, const Appender& writer, Index& index, Time now)
      : disk_(disk),
        chain_(chain),
        writer_(writer),
        index_(index),
        now_(now),
        walked_(chain.segments.size()),
        expires_by_(chain.segments.size(), Time::min()),
        marks_(chain.segments.size()),
        chunks_(Index::shard_count) {
    for (const SegmentFile& segment : chain.segments) total_ += segment.end;
  }

  // Reads everything with this many threads; 1: on the caller's own.
  void run(unsigned threads, const Log& log) {
    if (threads <= 1 || chain_.segments.size() <= 1) return read_segments();
    std::vector<std::jthread> readers;
    for (unsigned i = 0; i < threads; ++i) {
      readers.emplace_back([this] {
        read_segments();
        const std::scoped_lock lock(mutex_);
        ++ended_;
        progress_.notify_one();
      });
    }
    std::unique_lock lock(mutex_);
    while (!progress_.wait_for(lock, progress_every, [&] { return ended_ == threads; })) {
      log.info("reading the journal",
               {{"percent", done_.load(std::memory_order_relaxed) * 100 / std::max(total_, std::uint64_t{1})},
                {"bytes", total_}});
    }
  }

  const std::vector<DiskResult<Walked>>& walked() const { return walked_; }
  Fence last_fence() const { return Fence{last_fence_.load(std::memory_order_relaxed)}; }
  std::uint64_t bytes() const { return total_; }
  // The time of the newest entry, by the clock that wrote it; Time::min(): none.
  Time newest() const {
    return marks_.empty() ? Time::min() : std::ranges::max_element(marks_, {}, &Marks::newest)->newest;
  }
  // The processes that wrote the segments.
  std::vector<Run> runs() const;
  // When everything in the segment has expired.
  Time expires_by(std::size_t segment) const { return expires_by_[segment]; }
  // Oldest first.
  const std::deque<Doubtful>& doubtful() const { return doubtful_; }
  // By shard.
  std::span<RecoveredChunks> chunks() { return chunks_; }

 private:
  void read_segments() {
    std::vector<Gathered> gathered(Index::shard_count);
    for (;;) {
      const std::size_t at = next_.fetch_add(1, std::memory_order_relaxed);
      if (at >= chain_.segments.size()) break;
      walked_[at] = read(at, gathered);
    }
    for (std::size_t i = 0; i < gathered.size(); ++i) put_into_index(i, gathered[i]);
  }

  DiskResult<Walked> read(std::size_t number, std::span<Gathered> gathered) {
    const SegmentFile& segment = chain_.segments[number];
    std::uint64_t fence = std::to_underlying(segment.header.last_fence);
    std::uint64_t counted = 0;
    auto walked = walk(disk_, segment, OnDamage::stop, [&](const Frame& frame) {
      if (frame.seen.kind == Kind::skipped) return;
      if (segment.last) remember_if_doubtful(frame);
      if (frame.seen.kind == Kind::mark) {
        Marks& marks = marks_[number];
        if (marks.first_at == 0) marks.first_at = frame.offset;
        marks.last = frame.seen.written_at;
        marks.newest = std::max(marks.newest, marks.last);
        return;
      }
      fence = std::max(fence, std::to_underlying(frame.seen.fence));
      if (frame.seen.kind == Kind::chunk) {
        note_chunk(segment, frame, gathered);
      } else {
        note(segment, frame, gathered);
      }
      if (frame.seen.kind == Kind::put) {
        expires_by_[number] = std::max(expires_by_[number], frame.seen.expires_at);
      }
      constexpr std::uint64_t step = std::uint64_t{1} << 20U;
      if (frame.offset - counted > step) {
        done_.fetch_add(frame.offset - counted, std::memory_order_relaxed);
        counted = frame.offset;
      }
    });
    std::uint64_t seen = last_fence_.load(std::memory_order_relaxed);
    while (seen < fence && !last_fence_.compare_exchange_weak(seen, fence, std::memory_order_relaxed)) {
    }
    return walked;
  }

  void remember_if_doubtful(const Frame& frame) {
    if (frame.seen.kind == Kind::mark) {
      while (!doubtful_.empty() && doubtful_.front().offset < frame.seen.durable_up_to) doubtful_.pop_front();
    } else {
      doubtful_.push_back({.offset = frame.offset, .payload = std::string(frame.payload)});
    }
  }

  SegmentOrdinal ordinal(const SegmentFile& segment) const {
    const std::uint32_t before_first = std::to_underlying(chain_.segments.front().header.number) - 1;
    return SegmentOrdinal{std::to_underlying(segment.header.number) - before_first};
  }

  void note(const SegmentFile& segment, const Frame& frame, std::span<Gathered> gathered) {
    const bool removes = frame.seen.kind == Kind::remove;
    const bool leased = frame.seen.lease_until != Time::min();
    const Time lease_end = std::max(frame.seen.lease_until, now_ + lease_after_restart);
    const Time ends = leased ? std::max(frame.seen.forget_at, lease_end) : frame.seen.forget_at;
    const ExpirySecond expires = removes ? removed_already : expiry_second(ends);
    const std::size_t shard = Index::number_of(frame.seen.id);
    const Place place(ordinal(segment), frame.offset, frame.size, frame.seen.state, frame.seen.body_kept);
    if (gathered[shard].add(frame.seen.id, expires, place) == Gathered::Room::none)
      put_into_index(shard, gathered[shard]);
  }

  void note_chunk(const SegmentFile& segment, const Frame& frame, std::span<Gathered> gathered) {
    const std::size_t shard = Index::number_of(frame.seen.id);
    const Place place(ordinal(segment), frame.offset, frame.size);
    if (gathered[shard].add_chunk(chunk_name(frame.seen), place) == Gathered::Room::none)
      put_into_index(shard, gathered[shard]);
  }

  // The shard's lock also guards its chunks.
  void put_into_index(std::size_t shard, Gathered& gathered) {
    gathered.put_into(index_, *index_.change_at(writer_, shard), chunks_[shard]);
  }

  // The marks of a segment; Time::min(): it has none.
  struct Marks {
    std::uint64_t first_at = 0;
    Time last = Time::min();
    Time newest = Time::min();
  };

  Disk& disk_;
  const Chain& chain_;
  const Appender& writer_;
  Index& index_;
  Time now_;
  std::vector<DiskResult<Walked>> walked_;
  std::vector<Time> expires_by_;  // by segment
  std::vector<Marks> marks_;      // likewise
  std::vector<RecoveredChunks> chunks_;
  std::uint64_t total_ = 0;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::uint64_t> last_fence_{0};
  std::deque<Doubtful> doubtful_;  // used only by the thread that reads the last segment

  std::mutex mutex_;
  std::condition_variable progress_;
  unsigned ended_ = 0;
};

// A process begins with a segment of its own; data before its first mark was only copied. If the first segment of a
// process is gone, or a repair wrote the segments, it is unknown when that process last wrote.
std::vector<Run> Reading::runs() const {
  std::vector<Run> runs;
  bool known = false;
  for (std::size_t i = 0; i < chain_.segments.size(); ++i) {
    const SegmentFile& segment = chain_.segments[i];
    if (segment.header.begins_run || runs.empty()) {
      const std::uint64_t own = marks_[i].first_at != 0 ? marks_[i].first_at : segment.end;
      known = segment.header.begins_run;
      runs.push_back({.begin = {.segment = segment.header.number, .offset = known ? own : 0},
                      .opened_at = segment.header.created_at});
    }
    if (known && marks_[i].last != Time::min()) runs.back().last_mark = marks_[i].last;
  }
  return runs;
}

}  // namespace

Result<void> Recovery::run(Random& random, std::string_view note) {
  const auto begun_at = monotonic_now();
  auto chain = read_chain_to(core_.disk, note);
  if (!chain) return store_error(chain.error().detail);
  if (!chain->damage.empty()) return damaged(chain->damage.front());
  opened_at_ = core_.clock.now();
  Reading reading(core_.disk, *chain, appender_, core_.index, opened_at_);
  reading.run(core_.settings.recovery_threads, core_.log);
  std::uint64_t cut = 0;
  for (std::size_t i = 0; i < chain->segments.size(); ++i) {
    const auto& walked = reading.walked()[i];
    if (!walked) return store_error(walked.error().detail);
    if (!walked->damage.empty()) return damaged(walked->damage.front());
    SegmentFile& segment = chain->segments[i];
    segment.end = walked->end;
    // Uncertain records at the end of the last segment are copied into the next one.
    appender_.segments().add({.number = segment.header.number,
                              .salt = segment.header.salt,
                              .end = segment.last ? walked->durable_up_to : walked->end,
                              .created_at = segment.header.created_at,
                              .expires_by = reading.expires_by(i)});
    cut += walked->cut;
  }
  sometimes<"recovery: cuts off a torn tail">(cut > 0);
  appender_.deletion_clock().start(reading.newest(), opened_at_, core_.clock.running());
  std::vector<std::string> doubtful;
  for (const Doubtful& each : reading.doubtful()) doubtful.push_back(each.payload);
  if (auto begun = begin(random, *chain, reading.last_fence(), doubtful, reading.chunks()); !begun) {
    return begun;
  }
  const SegmentLog& segments = appender_.segments();
  core_.past_runs.set(reading.runs(), {.segment = segments.active(), .offset = segments.tail()}, opened_at_);
  const auto took = std::chrono::duration_cast<Duration>(monotonic_now() - begun_at);
  if (!chain->segments.empty()) {
    core_.log.info("the journal was read", {{"keys", core_.index.sizes().keys},
                                            {"segments", chain->segments.size()},
                                            {"bytes", reading.bytes()},
                                            {"torn_bytes_cut", cut},
                                            {"took_ms", took.count()}});
  }
  return {};
}

// Renames files outside this chain: they never became segments, or an interrupted repair replaced them. One of these
// may be damaged, and an operator may want to examine it.
Result<void> Recovery::put_aside(std::span<const std::string> obsolete) {
  for (const std::string& name : obsolete) {
    const bool segment = parse_segment_name(name).has_value();
    sometimes<"recovery: a file outside the chain">();
    const auto done = segment ? core_.disk.rename(name, name + ".damaged") : core_.disk.remove(name);
    if (!done) return store_error(done.error().detail);
  }
  return {};
}

Result<void> Recovery::begin(Random& random, const Chain& chain, Fence last_fence,
                             std::span<const std::string> doubtful, std::span<RecoveredChunks> chunks) {
  const Time now = core_.clock.now();
  SegmentLog& segments = appender_.segments();
  // The names that were listed may not be on disk yet: losing one while a later one survives would look like damage.
  if (const auto synced = core_.disk.sync_names(); !synced) return store_error(synced.error().detail);
  if (auto done = put_aside(chain.obsolete); !done) return done;
  JournalId journal;
  if (chain.segments.empty()) {
    random.fill(journal.bytes);
  } else {
    journal = chain.segments.front().header.journal;
  }
  appender_.start(journal, last_fence);
  std::uint64_t least = header_size + mark_frame_size;
  for (const std::string& payload : doubtful) least += frame_size(payload.size());
  auto made = segments.ensure_spare(Need::start, least);
  if (!made && made.error().fault == DiskFault::no_space) {
    sometimes<"recovery: on a full disk">();
    // On a full disk, make the new segment as small as possible, in the space that the last one did not use.
    if (!chain.segments.empty()) cut(chain.segments.back(), chain.segments.back().end);
    made = segments.adopt(SegmentLog::make_spare(core_.disk, least + least_room));
  }
  if (!made && made.error().fault == DiskFault::no_space) {
    return store_error(fmt::format("the disk is full, and the journal needs {} bytes to start: {}", least + least_room,
                                   made.error().detail));
  }
  if (!made) return store_error(made.error().detail);
  const auto begun = appender_.begin_run(now, [&](const SegmentHeader& header, std::string& segment) {
    sometimes<"recovery: writes again what may not be on disk">(!doubtful.empty());
    if (!doubtful.empty()) append_again(doubtful, chunks, header, segment);
  });
  if (!begun) return store_error(begun.error().detail);
  for (const SegmentFile& each : chain.segments) {
    cut(each, segments.segment(segments.ordinal(each.header.number)).end);
  }
  forget_removed_and_count();
  if (auto found = find_chunks(chunks); !found) return found;
  appender_.publish_sizes();
  // Drop segments without live records now, or a process that ends soon after every start would add one each time.
  appender_.drop_empty_segments();
  return appender_.has_failed() ? store_error(appender_.health().failure()) : Result<void>();
}

// Records that were read but may not be on disk: after a failed sync the system may return data that it never wrote.
// Write them again, or they could be replayed to clients and then lost. Their old segment ends before them and the new
// one begins with them, so after a power loss one of the two copies counts.
void Recovery::append_again(std::span<const std::string> payloads, std::span<RecoveredChunks> chunks,
                            const SegmentHeader& header, std::string& segment) {
  for (const std::string& payload : payloads) {
    const auto seen = glance(payload);
    ONCE_ASSERT(seen.has_value());
    const std::uint64_t begin = segment.size();
    append_payload(segment, header.salt, payload);
    const Place place(appender_.segments().ordinal(header.number), begin, segment.size() - begin, seen->state,
                      seen->body_kept);
    if (seen->kind == Kind::chunk) {
      chunks[Index::number_of(seen->id)].add(chunk_name(*seen), place);
      continue;
    }
    const auto shard = core_.index.change(appender_, seen->id);
    SlotTable::Slot* slot = shard->slots.find(seen->id);
    ONCE_ASSERT(slot != nullptr);  // the last record of a key is the last in the list
    slot->place = place;
  }
  // The mark becomes true when the segment gets its name.
  append_mark(segment, header.salt, segment.size(), appender_.deletes_by());
}

// Truncates preallocated space if the process ended before its segment was full. A file that cannot be truncated is
// only larger than necessary.
void Recovery::cut(const SegmentFile& segment, std::uint64_t end) {
  if (segment.file_size <= end) return;
  const auto file = core_.disk.open(segment.name, Access::write);
  if (file) [[maybe_unused]]
    const auto done = (*file)->truncate(end);
}

void Recovery::forget_removed_and_count() {
  for (std::size_t number = 0; number < Index::shard_count; ++number) {
    const auto shard = core_.index.change_at(appender_, number);
    SlotTable& slots = shard->slots;
    for (std::size_t i = 0; i < slots.size();) {
      SlotTable::Slot& slot = slots.at(i);
      if (!slot.place.empty() && has_passed(slot.expires, appender_.deletes_by())) {
        sometimes<"recovery: a record has expired">();
        slots.erase(slot);  // another slot may have taken its place
      } else {
        ++i;
      }
    }
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (const Place place = slots.at(i).place; !place.empty()) appender_.segments().count_live(place, 1);
    }
    core_.index.give_back_memory(*shard);
  }
}

// Assigns chunks to records that may have them. Only the whole record shows whether a chunk is of its claim.
Result<void> Recovery::find_chunks(std::span<RecoveredChunks> recovered) {
  SegmentLog& segments = appender_.segments();
  std::string buffer;
  std::uint64_t incomplete = 0;
  for (std::size_t number = 0; number < recovered.size(); ++number) {
    const auto shard = core_.index.change_at(appender_, number);
    std::vector<OperationId> ids;
    recovered[number].for_each_id([&ids](const OperationId& id) { ids.push_back(id); });
    for (const OperationId& id : ids) {
      const SlotTable::Slot* slot = shard->slots.find(id);
      if (slot == nullptr || ends_chunks(slot->expires, slot->place)) continue;
      Pinned from = segments.pin(slot->place);
      const auto payload = FrameReader(core_.disk, from, buffer).whole();
      if (!payload) return store_error(payload.error().detail);
      segments.keep_open(from);
      const auto seen = glance(*payload);
      if (!seen || seen->kind != Kind::put || seen->id != id) continue;
      Record record = decode_put(*payload);
      // As in its slot, the lease is extended: an owner outside the process gets time to renew.
      sometimes<"recovery: a leased claim has chunks">(is_leased(record));
      if (is_leased(record)) record.lease_until = std::max(record.lease_until, opened_at_ + lease_after_restart);
      if (record.state == State::succeeded && record.expires_at <= appender_.deletes_by()) continue;
      std::vector<Place> places = recovered[number].take(id, record);
      if (record.state == State::succeeded) {
        const std::uint32_t count = chunk_count(*payload);
        sometimes<"recovery: a body has lost a part">(places.size() < count);
        if (places.size() < count) ++incomplete;
        places.resize(places.size() < count ? 0 : count);  // readers get the whole body or none
      }
      core_.index.add_chunks(segments, *shard, id, record, std::move(places));
    }
    recovered[number] = RecoveredChunks();
  }
  if (incomplete > 0) {
    core_.log.warn("responses have lost a part of their body and are answered as not kept",
                   {{"responses", incomplete}});
  }
  return {};
}

}  // namespace once::journal
