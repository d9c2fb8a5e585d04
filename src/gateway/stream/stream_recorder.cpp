#include "gateway/stream/stream_recorder.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/sometimes.hpp"

namespace once::gateway {

namespace {

using http::BodyChunk;

// How often to check on a slow reader.
constexpr Duration relay_pause = std::chrono::milliseconds(20);
constexpr Duration longest_wait = std::chrono::seconds(1);

// Whether a claim in this state may still be finished by its owner.
bool is_still_open(Standing standing) {
  return standing == Standing::unseen || standing == Standing::started || standing == Standing::unknown;
}

}  // namespace

StreamRecorder::StreamRecorder(const StreamRecorderPorts& ports, const Op& claim, Executions::Entry& work,
                               LiveStream& live, const StreamLimits& limits)
    : ports_(ports), work_(work), live_(live), limits_(limits) {
  append_.verb = Verb::append;
  append_.id = claim.id;
  append_.nonce = claim.nonce;
  append_.terms = claim.terms;
  append_.tenant = claim.tenant;
  append_.route = claim.route;
}

Task<Recorded> StreamRecorder::begin(OutcomeBytes head) {
  ONCE_ASSERT(append_.chunk == 0 && taken_ == 0 && !oversize_);
  const Recorded appended = co_await append(head);
  // A full store: nothing is recorded, and the stream continues unrecorded.
  oversize_ = append_.status == OpStatus::failed && append_.fault == StoreFault::full;
  if (appended == Recorded::no && !oversize_) co_return Recorded::no;
  live_.begin(std::move(head));
  co_return Recorded::yes;
}

void StreamRecorder::begin_unrecorded(OutcomeBytes head, std::string_view body) {
  ONCE_ASSERT(append_.chunk == 0 && taken_ == 0 && !oversize_);
  oversize_ = true;
  gathered_ = body;
  live_.begin(std::move(head));
}

Task<StreamEnd> StreamRecorder::record(http::ResponseSource& source, std::string_view begun) {
  while (true) {
    BodyChunk chunk{.kind = BodyChunk::Kind::data, .data = begun};
    if (begun.empty()) chunk = co_await next(source);
    if (chunk.kind == BodyChunk::Kind::data) {
      begun = chunk.data;
      chunk.data = begun.substr(0, largest_piece);
      begun.remove_prefix(chunk.data.size());
      taken_ += chunk.data.size();
      gathered_.append(chunk.data);
      if (taken_ > limits_.max_stream) oversize_ = true;
      if (appended_.is_set() && !oversize_) spawn(append_gathered());
      if (gathered_.size() >= most_gathered || oversize_) co_await appended_;
    } else {
      source_ended_ = chunk.kind;
      co_await appended_;
    }
    if (failed_) co_return append_.status == OpStatus::lost ? StreamEnd::lost : StreamEnd::unrecorded;
    if (oversize_ && !gathered_.empty()) {
      taken_ += begun.size();
      gathered_.append(begun);
      const StreamEnd end = co_await leave_record();
      co_return end;
    }
    if (chunk.kind == BodyChunk::Kind::data && is_abandoned()) {
      co_await appended_;
      co_return StreamEnd::abandoned;
    }
    switch (chunk.kind) {
      case BodyChunk::Kind::data: break;
      case BodyChunk::Kind::end: ONCE_ASSERT(gathered_.empty() && published_ == taken_); co_return StreamEnd::whole;
      case BodyChunk::Kind::broken: co_return StreamEnd::broken;
      case BodyChunk::Kind::timed_out: co_return StreamEnd::timed_out;
    }
  }
}

// Appends the empty chunk that marks the rest as unrecorded, before any reader gets a byte of that rest. If the stream
// was stopped before, the append is refused as lost, and nothing more is sent.
Task<StreamEnd> StreamRecorder::leave_record() {
  if (append_.chunk == 0) co_return StreamEnd::oversize;  // nothing is recorded
  const Recorded marked = co_await append(std::make_shared<const std::string>());
  sometimes<"recorder: stopped before it goes past its record">(append_.status == OpStatus::lost);
  const bool full = append_.status == OpStatus::failed && append_.fault == StoreFault::full;
  if (marked == Recorded::yes || full) co_return StreamEnd::oversize;
  co_return append_.status == OpStatus::lost ? StreamEnd::lost : StreamEnd::unrecorded;
}

// Check for failed appends regularly, not only when the backend sends its next byte.
Task<BodyChunk> StreamRecorder::next(http::ResponseSource& source) {
  Duration waited{};
  while (true) {
    const Duration part = std::min(limits_.silence - waited, longest_wait);
    const BodyChunk chunk = co_await source.next(part);
    waited += part;
    if (!source.is_request_sent()) waited = Duration::zero();
    if (chunk.kind == BodyChunk::Kind::timed_out) co_await look_for_end();
    if (chunk.kind != BodyChunk::Kind::timed_out || failed_ || waited >= limits_.silence) co_return chunk;
  }
}

// If an outcome was recorded for this claim meanwhile, for example by a caller that stops the stream, end the stream.
Task<void> StreamRecorder::look_for_end() {
  const bool doubtful = ports_.lease != nullptr && !ports_.lease->may_send();
  if (!appended_.is_set() || (!live_.should_look() && !doubtful)) co_return;
  if (live_.is_stopped()) {  // even if the record of the stop is gone by now
    sometimes<"recorder: stopped while the backend is silent">();
    append_.status = OpStatus::lost;
    failed_ = true;
    co_return;
  }
  Op seen{.verb = Verb::lookup, .id = append_.id};
  co_await ports_.claimant.ask(seen);
  if (seen.status != OpStatus::done) live_.ask_owner_to_look();
  const Standing standing = standing_of(seen, append_.nonce);
  // If chunks are still recorded, the next append reports a claim that was taken over and may get a newer one, so only
  // a recorded outcome ends the stream here.
  const bool is_over = oversize_ ? !is_still_open(standing) : standing == Standing::succeeded;
  if (!appended_.is_set() || !is_over) co_return;
  if (standing != Standing::succeeded) {
    const NewerClaim newer = co_await take_newer_claim();
    if (newer == NewerClaim::taken) co_return;
  }
  append_.status = OpStatus::lost;
  failed_ = true;
}

// Checked when bytes arrive: a silent backend runs into its timeout.
bool StreamRecorder::is_abandoned() {
  if (limits_.abandon_after == Duration::zero()) return false;
  const Duration now = ports_.clock.running();
  if (live_.readers() > 0) {
    sometimes<"recorder: a reader came back to a stream without readers">(unread_since_.has_value());
    unread_since_.reset();
  } else if (!unread_since_) {
    unread_since_ = now;
  }
  return unread_since_ && now - *unread_since_ >= limits_.abandon_after;
}

// Runs concurrently with the read from the backend until there is nothing more to append.
Task<void> StreamRecorder::append_gathered() {
  ONCE_ASSERT(appended_.is_set());
  appended_.clear();
  while (!gathered_.empty() && !failed_ && !oversize_) {
    ONCE_ASSERT(gathered_.size() < most_gathered + largest_piece);
    auto chunk = std::make_shared<const std::string>(std::move(gathered_));
    gathered_.clear();
    const Recorded appended = co_await append(chunk);
    if (appended == Recorded::yes) {
      publish(chunk);
    } else if (append_.status == OpStatus::failed && append_.fault == StoreFault::full) {
      gathered_.insert(0, *chunk);
      sometimes<"recorder: the store is full">();
      ports_.metrics.bodies_dropped.add();
      oversize_ = true;
    } else {
      failed_ = true;
    }
  }
  appended_.set();
}

Task<Recorded> StreamRecorder::append(OutcomeBytes chunk) {
  append_.outcome = std::move(chunk);
  // Append only under the current claim, so do not pass the execution: a newer claim that was handed over has no chunks
  // yet, and this chunk would not be its first.
  co_await ports_.claimant.end(append_, limits_.lease);
  NewerClaim newer = NewerClaim::none;
  if (append_.status == OpStatus::lost) newer = co_await take_newer_claim();
  // A failover may have lost chunks that were already sent; the last ones are still in memory.
  const bool lost_some = append_.status == OpStatus::failed && append_.fault == StoreFault::no_chunks;
  if (newer == NewerClaim::taken || lost_some) {
    sometimes<"recorder: appends again under a newer claim">(!lost_some);
    sometimes<"recorder: appends again what a failover lost">(lost_some);
    const Recorded again = co_await append_held_again();
    co_return again;
  }
  if (append_.status != OpStatus::done) co_return Recorded::no;
  ++append_.chunk;
  ports_.metrics.stream_chunks.add();
  ports_.metrics.stream_bytes.add(append_.outcome->size());
  co_return Recorded::yes;
}

// The claim is lost: another request was given a newer one, or the store lost its data and the operation is claimed
// again. A stopped stream takes no newer claim.
Task<NewerClaim> StreamRecorder::take_newer_claim() {
  if (live_.is_stopped()) co_return NewerClaim::none;
  NewerClaim newer = take_handed(append_, &work_);
  if (newer == NewerClaim::none) newer = co_await ports_.claimant.claim_anew(append_, work_);
  if (newer == NewerClaim::taken) live_.hand_over(append_.nonce);
  co_return newer;
}

// The claim was lost and this execution has a newer one without chunks, or the store has lost chunks. Appends again
// what is in memory; older chunks are gone.
Task<Recorded> StreamRecorder::append_held_again() {
  const bool handed = append_.status == OpStatus::lost;
  OutcomeBytes last = std::move(append_.outcome);
  LiveStream::HeldChunks held = live_.held();
  if (append_.chunk == 0) held = {};  // the first chunk is the head
  sometimes<"recorder: cannot append again what it no longer holds">(held.first > 0);
  if (handed && held.first > 0) {
    answer_failed(append_, StoreFault::refused, "a newer claim has none of the chunks");
    co_return Recorded::no;
  }
  held.chunks.push_back(std::move(last));
  append_.chunk = held.first;
  for (OutcomeBytes& chunk : held.chunks) {
    append_.outcome = std::move(chunk);
    co_await ports_.claimant.end(append_, limits_.lease);
    if (append_.status != OpStatus::done) co_return Recorded::no;
    ++append_.chunk;
  }
  co_return Recorded::yes;
}

void StreamRecorder::publish(const OutcomeBytes& chunk) {
  note_published(*chunk);
  ONCE_ASSERT(published_ <= taken_);
  live_.publish(chunk, ports_.most_memory);
  ports_.readers.notify(live_.id());
}

void StreamRecorder::note_published(std::string_view bytes) {
  published_ += bytes.size();
  digest_.update(bytes);
}

bool StreamRecorder::continues_in(std::string_view body) const {
  if (body.size() < published_) return false;
  Sha256 begins;
  begins.update(body.substr(0, static_cast<std::size_t>(published_)));
  return begins.digest() == Sha256(digest_).digest();
}

Task<void> StreamRecorder::wait_for_readers() {
  while (true) {
    Waiters::Ticket ticket(ports_.readers, live_.id(), ports_.home);
    if (failed_ || !live_.fastest_is_behind(relay_window / 2)) co_return;
    sometimes<"recorder: waits for its readers">();
    co_await ticket.wait(relay_pause);
    co_await look_for_end();
  }
}

// When the stream ends, its recorded part is deleted from the store, so the fastest reader must have read it by then.
Task<StreamEnd> StreamRecorder::relay(http::ResponseSource& source) {
  live_.begin_relay(relay_window);
  BodyChunk chunk{.kind = BodyChunk::Kind::data, .data = gathered_};
  while (chunk.kind == BodyChunk::Kind::data) {
    if (!chunk.data.empty()) {
      note_published(chunk.data);
      live_.relay(std::make_shared<const std::string>(chunk.data));
      ports_.readers.notify(live_.id());
    }
    co_await wait_for_readers();
    co_await look_for_end();
    if (failed_) co_return StreamEnd::lost;
    if (is_abandoned()) co_return StreamEnd::abandoned;
    if (source_ended_) {
      chunk = {.kind = *source_ended_, .data = {}};
    } else {
      chunk = co_await next(source);
    }
  }
  if (failed_) co_return StreamEnd::lost;
  switch (chunk.kind) {
    case BodyChunk::Kind::broken: co_return StreamEnd::broken;
    case BodyChunk::Kind::timed_out: co_return StreamEnd::timed_out;
    case BodyChunk::Kind::data:
    case BodyChunk::Kind::end: break;
  }
  // Wait for that reader, but not for ever: the store may have lost its chunks.
  for (Duration waited{}; live_.all_read_store() && !failed_ && waited < limits_.silence; waited += relay_pause) {
    co_await sleep_for(ports_.home, relay_pause);
    co_await look_for_end();
  }
  co_return failed_ ? StreamEnd::lost : StreamEnd::oversize;
}

}  // namespace once::gateway
