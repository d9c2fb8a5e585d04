#include "store/journal/repair.hpp"

#include <algorithm>
#include <memory>
#include <ranges>
#include <utility>

#include <fmt/format.h>

namespace once::journal {

namespace {

constexpr std::uint64_t write_size = std::uint64_t{1} << 20U;
constexpr std::uint64_t fences_in_a_segment = std::uint64_t{1} << 32U;
constexpr std::uint32_t highest_to_repair = std::uint32_t{0xffff'ffff} - 1'000'000;
constexpr std::uint64_t new_segment_size = std::uint64_t{64} << 20U;

std::unexpected<Error> store_error(const DiskError& error) {
  return std::unexpected(Error{.source = ErrorSource::store, .retryable = Retryable::no, .detail = error.detail});
}

// Reads all segments and passes each intact frame to `visit`.
Result<Report> read_all(Disk& disk, const Chain& chain, const OnSegment& on_segment,
                        const std::function<DiskResult<void>(const Frame&)>& visit) {
  Report report{.segments = chain.segments.size(), .damage = chain.damage};
  for (const SegmentFile& segment : chain.segments) {
    DiskResult<void> visited;
    const auto walked = walk(disk, segment, OnDamage::skip, [&](const Frame& frame) {
      if (visited) visited = visit(frame);
    });
    if (!walked) return store_error(walked.error());
    if (!visited) return store_error(visited.error());
    on_segment({.file = disk.path_of(segment.name),
                .bytes = walked->end,
                .records = walked->records,
                .cut = walked->cut,
                .end_is_known = !segment.last,
                .damage = walked->damage});
    report.records += walked->records;
    report.damage.insert(report.damage.end(), walked->damage.begin(), walked->damage.end());
  }
  return report;
}

// Writes new segments under temporary names.
class Rewriter {
 public:
  Rewriter(Disk& disk, const SegmentHeader& first) : disk_(disk), next_(first) {}

  DiskResult<void> add(std::string_view payload) {
    if (file_ == nullptr || end_ + buffer_.size() > new_segment_size) {
      if (auto begun = begin_segment(); !begun) return begun;
    }
    append_payload(buffer_, salt_, payload);
    return buffer_.size() < write_size ? DiskResult<void>() : write();
  }

  // Makes at least one segment, with a mark at its end that confirms everything before it.
  DiskResult<void> close(Time now) {
    if (file_ == nullptr) {
      if (auto begun = begin_segment(); !begun) return begun;
    }
    if (auto written = write(); !written) return written;
    if (auto synced = file_->sync(); !synced) return synced;
    append_mark(buffer_, salt_, end_, now);
    return end_segment();
  }

  // Call after close().
  JournalEnd end() const { return {.segment = next_.number, .offset = end_}; }

  // The first segment is renamed last: it makes all older ones obsolete.
  DiskResult<void> give_names() {
    for (const SegmentNumber each : std::views::reverse(made_)) {
      if (auto renamed = disk_.rename(temporary_name(each), segment_name(each)); !renamed) return renamed;
      if (auto synced = disk_.sync_names(); !synced) return synced;
    }
    return {};
  }

 private:
  static std::string temporary_name(SegmentNumber number) { return segment_name(number) + ".repair"; }

  DiskResult<void> begin_segment() {
    if (file_ != nullptr) {
      if (auto ended = end_segment(); !ended) return ended;
      next_.previous_end = end_;
      next_.number = SegmentNumber{std::to_underlying(next_.number) + 1};
    }
    auto file = disk_.create(temporary_name(next_.number));
    if (!file) return std::unexpected(file.error());
    file_ = std::move(*file);
    made_.push_back(next_.number);
    end_ = 0;
    buffer_ = encode(next_);
    salt_ = next_.salt;
    return {};
  }

  DiskResult<void> write() {
    auto written = file_->write_at(end_, buffer_);
    end_ += buffer_.size();
    buffer_.clear();
    return written;
  }

  DiskResult<void> end_segment() {
    if (auto written = write(); !written) return written;
    return file_->sync();
  }

  Disk& disk_;
  SegmentHeader next_;
  std::unique_ptr<File> file_;
  std::vector<SegmentNumber> made_;
  std::uint64_t end_ = 0;
  std::uint32_t salt_ = 0;
  std::string buffer_;
};

// The numbers of all segment files, even of unreadable ones: a new segment must not get an existing name.
DiskResult<std::vector<SegmentNumber>> numbers_in_use(Disk& disk) {
  const auto names = disk.list();
  if (!names) return std::unexpected(names.error());
  std::vector<SegmentNumber> numbers;
  for (const std::string& name : *names) {
    if (const auto number = parse_segment_name(name)) numbers.push_back(*number);
  }
  return numbers;
}

Result<Report> verify_chain(Disk& disk, const Chain& chain, const OnSegment& on_segment) {
  return read_all(disk, chain, on_segment, [](const Frame&) { return DiskResult<void>(); });
}

}  // namespace

Result<Report> verify(Disk& disk, const OnSegment& on_segment) {
  if (const auto locked = disk.lock_to_read(); !locked) return store_error(locked.error());
  const auto chain = read_chain_to(disk, disk.note());
  if (!chain) return store_error(chain.error());
  return verify_chain(disk, *chain, on_segment);
}

Result<Report> repair(Disk& disk, const Clock& clock, Random& random, const OnSegment& on_segment) {
  const std::string note = disk.note();
  if (const auto locked = disk.lock(); !locked) return store_error(locked.error());
  const auto chain = read_chain_to(disk, note);
  if (!chain) return store_error(chain.error());
  auto found = verify_chain(disk, *chain, [](const SegmentReport&) {});
  if (!found) return found;
  if (found->damage.empty()) {
    if (const auto kept = disk.leave_note(note); !kept) return store_error(kept.error());
    return found;
  }
  const auto old = numbers_in_use(disk);
  if (!old) return store_error(old.error());

  const SegmentNumber highest = old->empty() ? SegmentNumber{} : std::ranges::max(*old);
  if (std::to_underlying(highest) > highest_to_repair) {
    return store_error({.detail = fmt::format("{}: there are no higher numbers for the repaired segments",
                                              disk.path_of(segment_name(highest)))});
  }
  SegmentHeader first{.number = SegmentNumber{std::to_underlying(highest) + 1}, .created_at = clock.now()};
  random.fill(first.journal.bytes);
  for (const SegmentFile& segment : chain->segments) {
    first.last_fence = std::max(first.last_fence, segment.header.last_fence);
  }
  // The new log continues above every fence that may have been used in the lost part.
  first.last_fence = Fence{std::to_underlying(first.last_fence) + fences_in_a_segment};
  Rewriter rewriter(disk, first);
  auto report = read_all(disk, *chain, on_segment, [&](const Frame& frame) {
    const bool known = frame.seen.kind != Kind::mark && frame.seen.kind != Kind::skipped;
    return known ? rewriter.add(frame.payload) : DiskResult<void>();
  });
  if (!report) return report;
  DiskResult<void> done = rewriter.close(clock.now());
  if (done) done = rewriter.give_names();
  for (const SegmentNumber number : *old) {
    const std::string name = segment_name(number);
    const bool damaged =
        std::ranges::any_of(report->damage, [&](const Damage& damage) { return damage.file == disk.path_of(name); });
    if (done) done = damaged ? disk.rename(name, name + ".damaged") : disk.remove(name);
  }
  if (done) done = disk.sync_names();
  if (done) done = disk.leave_note(to_note(rewriter.end()));
  if (!done) return store_error(done.error());
  return report;
}

}  // namespace once::journal
