#include "store/journal/journal_search.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace once::journal {

namespace {

constexpr std::uint64_t end_of_ids = std::uint64_t{1} << 32U;
constexpr std::uint64_t slots_per_lock = 4096;
constexpr std::size_t slots_per_page = 65'536;
constexpr std::size_t reads_per_page = 2000;

// A range of ids (`reach`) that covers about this many slots.
struct Step {
  std::uint64_t reach = 1;
  std::size_t slots = 0;
};
Step step_of(const Index& index, std::size_t shard) {
  const std::size_t slots = index.look_at(shard)->slots.size();
  return {.reach = std::max<std::uint64_t>(end_of_ids / slots * slots_per_lock, 1),
          .slots = std::min<std::size_t>(slots, slots_per_lock)};
}

// Whether the record may match, judging by its slot. The slot of an expired record that is remembered may still have
// the old state.
bool may_fit(const SlotTable::Slot& slot, const KeyFilter& filter, Time now) {
  if (has_passed(slot.expires, now)) return false;
  return !filter.state || *filter.state == State::tombstone || slot.place.state() == *filter.state;
}

OperationId beginning_of(const std::array<std::uint8_t, SlotTable::tag_size>& tag) {
  OperationId id;
  std::ranges::copy(tag, id.bytes.begin());
  return id;
}

}  // namespace

std::vector<JournalSearch::Candidate> JournalSearch::candidates(std::size_t shard, std::uint64_t from, std::uint64_t to,
                                                                const KeyFilter& filter, Time now) const {
  std::vector<Candidate> found;
  core_.index.look_at(shard)->slots.visit(from, to, [&](std::uint64_t bits, const SlotTable::Slot& slot) {
    if (may_fit(slot, filter, now)) found.push_back({.shard = shard, .bits = bits, .tag = slot.tag});
  });
  std::ranges::sort(found, {}, [](const Candidate& each) { return std::pair(each.bits, each.tag); });
  return found;
}

std::optional<JournalSearch::Located> JournalSearch::locate(const Candidate& candidate) const {
  const auto appender = core_.appender.lock();
  const auto shard = core_.index.look_at(candidate.shard);
  const SlotTable::Slot* slot = shard->slots.find(beginning_of(candidate.tag));
  if (slot == nullptr) return std::nullopt;
  return Located{.from = appender->segments().pin(slot->place), .live = slot->expires == never_expires};
}

DiskResult<Head> JournalSearch::read_part(Pinned& from, std::string& buffer, Part part) {
  const bool was_open = from.file != nullptr;
  FrameReader reader(core_.disk, from, buffer);
  DiskResult<Head> head;
  if (part == Part::head) {
    head = reader.head();
  } else if (const auto payload = reader.whole()) {
    head = Head{.payload = *payload, .size = payload->size()};
  } else {
    head = std::unexpected(payload.error());
  }
  if (!was_open) core_.appender.lock()->segments().keep_open(from);
  return head;
}

Result<std::optional<KeyInfo>> JournalSearch::read_info(const Candidate& candidate, std::string& buffer, Part part,
                                                        Time now) {
  std::optional<Located> at;
  DiskResult<Head> head;
  std::optional<Glance> seen;
  for (std::optional<Address> failed; !seen;) {
    at = locate(candidate);
    if (!at) return std::nullopt;
    head = read_part(at->from, buffer, part);
    if (head) seen = glance(head->payload);
    if (seen && (seen->kind != Kind::put ||
                 !std::ranges::equal(std::span(seen->id.bytes).first(candidate.tag.size()), candidate.tag))) {
      seen.reset();
    }
    // The record may have moved meanwhile; then try again.
    if (seen || std::exchange(failed, at->from.address) != at->from.address) continue;
    return std::unexpected(
        Error{.source = ErrorSource::store,
              .retryable = Retryable::no,
              .detail = head ? "the journal's index does not match its segments" : head.error().detail});
  }
  Record record = decode_put(head->payload);
  record.lease_until = core_.past_runs.lease(record.lease_until, at->from.address);
  if (at->live) record.lease_until = Time::max();
  if (forgotten(record, now)) return std::nullopt;
  if (!expired(record, now) && !core_.index.has_body(seen->id, record, chunk_count(head->payload))) {
    record.body_kept = BodyKept::no;
    record.outcome = nullptr;
  }
  KeyInfo info = info_of(seen->id, record, now);
  if (record.outcome != nullptr && info.state != State::tombstone) {
    info.outcome_bytes += head->size - head->payload.size();
  }
  const Labels labels = labels_of(head->payload);
  if (!labels.tenant.empty()) info.tenant = labels.tenant;
  if (!labels.route.empty()) info.route = labels.route;
  return info;
}

// An unreadable record is left out of lists; looking it up alone reports the error.
Result<KeyPage> JournalSearch::scan(const KeyFilter& filter, std::string_view cursor, std::size_t limit) {
  const auto begin = read_cursor(cursor, 2);
  if (!begin) return bad_cursor();
  KeyPage page{.keys = {}, .next = {}, .now = core_.clock.now()};
  std::string buffer;
  std::size_t number = (*begin)[0];
  std::uint64_t from = (*begin)[1];
  std::size_t looked = 0;
  std::size_t reads = 0;
  bool logged = false;
  while (number < Index::shard_count && page.keys.size() < limit && looked < slots_per_page && reads < reads_per_page) {
    const Step step = step_of(core_.index, number);
    const std::uint64_t to = std::min(from + step.reach, end_of_ids);
    looked += step.slots;
    std::uint64_t done_up_to = to;
    std::uint64_t last = end_of_ids;
    for (const Candidate& candidate : candidates(number, from, to, filter, page.now)) {
      // Ids with the same first bits are returned together, because the cursor cannot separate them.
      if ((page.keys.size() >= limit || reads >= reads_per_page) && candidate.bits != last) {
        done_up_to = candidate.bits;
        break;
      }
      last = candidate.bits;
      ++reads;
      auto info = read_info(candidate, buffer, Part::head, page.now);
      if (!info && !std::exchange(logged, true)) {
        core_.log.error("the journal cannot be read", {{"error", info.error().detail}});
      }
      if (info && *info && fits(**info, filter)) page.keys.push_back(*std::move(*info));
    }
    from = done_up_to;
    if (from < end_of_ids) continue;
    ++number;
    from = 0;
  }
  if (number < Index::shard_count) page.next = cursor_of({number, from});
  return page;
}

Result<KeyPage> JournalSearch::find(const IdPrefix& prefix) {
  KeyPage page{.keys = {}, .next = {}, .now = core_.clock.now()};
  std::string buffer;
  std::uint32_t bits = 0;
  std::memcpy(&bits, prefix.bytes.data(), sizeof bits);
  // The shard is determined by later bytes, so search all.
  for (std::size_t number = 0; number < Index::shard_count; ++number) {
    for (const Candidate& candidate : candidates(number, bits, std::uint64_t{bits} + 1, {}, page.now)) {
      if (!begins_with(beginning_of(candidate.tag), prefix)) continue;
      auto info = read_info(candidate, buffer, Part::whole, page.now);
      if (!info) return std::unexpected(info.error());
      if (*info) page.keys.push_back(*std::move(*info));
    }
  }
  return page;
}

// Counts by the index: an expired record that is remembered counts with its old state until it is carried forward. For
// its own claims the index knows whether the owner is gone; the few others are read.
Result<KeyCounts> JournalSearch::count(std::string_view cursor) {
  const auto begin = read_cursor(cursor, 2);
  if (!begin) return bad_cursor();
  const Time now = core_.clock.now();
  std::string buffer;
  KeyCounts counts;
  std::size_t number = (*begin)[0];
  std::uint64_t from = (*begin)[1];
  for (std::size_t looked = 0; number < Index::shard_count && looked < slots_per_page;) {
    const Step step = step_of(core_.index, number);
    const std::uint64_t to = std::min(from + step.reach, end_of_ids);
    looked += step.slots;
    std::vector<Candidate> unsure;
    core_.index.look_at(number)->slots.visit(from, to, [&](std::uint64_t bits, const SlotTable::Slot& slot) {
      if (!may_fit(slot, {}, now)) return;
      const State state = slot.place.state();
      if (state == State::started && slot.expires != never_expires) {
        unsure.push_back({.shard = number, .bits = bits, .tag = slot.tag});
      } else {
        ++counts.by_state[static_cast<std::size_t>(state)];
      }
    });
    for (const Candidate& candidate : unsure) {
      const auto info = read_info(candidate, buffer, Part::head, now);
      if (info && *info) counts.add(**info, now);
    }
    from = to < end_of_ids ? to : 0;
    if (from == 0) ++number;
  }
  if (number < Index::shard_count) counts.next = cursor_of({number, from});
  return counts;
}

}  // namespace once::journal
