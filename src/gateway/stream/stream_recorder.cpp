#include "gateway/stream/stream_recorder.hpp"

#include <algorithm>
#include <utility>

namespace once::gateway {

namespace {

using http::BodyChunk;

// A reader that is behind is looked after this often.
constexpr Duration relay_pause = std::chrono::milliseconds(20);
constexpr Duration longest_wait = std::chrono::seconds(1);

}  // namespace

// Waits until everything that was gathered is in the store, or could not be put there.
struct StreamRecorder::AppenderIdle {
  StreamRecorder& recorder;

  bool await_ready() const noexcept { return !recorder.appending_; }
  void await_suspend(std::coroutine_handle<> caller) const noexcept { recorder.awaits_appender_ = caller; }
  void await_resume() const noexcept { recorder.awaits_appender_ = nullptr; }
};

StreamRecorder::StreamRecorder(const StreamRecorderPorts& ports, const Op& claim, const Executions::Entry& work,
                               LiveStream& live, const StreamLimits& limits)
    : ports_(ports), work_(work), live_(live), limits_(limits) {
  append_.verb = Verb::append;
  append_.id = claim.id;
  append_.nonce = claim.nonce;
  append_.terms = claim.terms;
  append_.tenant = claim.tenant;
  append_.route = claim.route;
}

Task<bool> StreamRecorder::begin(OutcomeBytes head) {
  const bool appended = co_await append(head);
  // Nothing of it can be recorded, which holds up nobody.
  oversize_ = append_.status == OpStatus::failed && append_.fault == StoreFault::full;
  if (!appended && !oversize_) co_return false;
  co_await publish(head);
  co_return true;
}

Task<StreamEnd> StreamRecorder::record(http::ResponseSource& source) {
  AppenderIdle idle{*this};
  while (true) {
    const BodyChunk chunk = co_await next(source);
    if (chunk.kind == BodyChunk::Kind::data) {
      taken_ += chunk.data.size();
      gathered_.append(chunk.data);
      if (taken_ > limits_.max_stream) oversize_ = true;
      if (!appending_ && !oversize_) spawn(append_gathered());
      if (gathered_.size() >= most_gathered || oversize_) co_await idle;
    } else {
      source_ended_ = chunk.kind;
      co_await idle;
    }
    if (failed_) co_return append_.status == OpStatus::lost ? StreamEnd::lost : StreamEnd::unrecorded;
    if (oversize_ && !gathered_.empty()) co_return StreamEnd::oversize;
    if (chunk.kind == BodyChunk::Kind::data && is_abandoned()) {
      co_await idle;
      co_return StreamEnd::abandoned;
    }
    switch (chunk.kind) {
      case BodyChunk::Kind::data: break;
      case BodyChunk::Kind::end: co_return StreamEnd::whole;
      case BodyChunk::Kind::broken: co_return StreamEnd::broken;
      case BodyChunk::Kind::timed_out: co_return StreamEnd::timed_out;
    }
  }
}

// What failed beside it is noticed soon, not when the backend sends its next byte.
Task<BodyChunk> StreamRecorder::next(http::ResponseSource& source) {
  Duration waited{};
  while (true) {
    const Duration part = std::min(limits_.silence - waited, longest_wait);
    const BodyChunk chunk = co_await source.next(part);
    waited += part;
    if (chunk.kind != BodyChunk::Kind::timed_out || failed_ || waited >= limits_.silence) co_return chunk;
  }
}

// Asked when something has come: a backend that is silent ends by itself.
bool StreamRecorder::is_abandoned() {
  if (limits_.abandon_after == Duration::zero()) return false;
  const Duration now = ports_.clock.running();
  if (live_.readers() > 0) {
    nobody_since_.reset();
  } else if (!nobody_since_) {
    nobody_since_ = now;
  }
  return nobody_since_ && now - *nobody_since_ >= limits_.abandon_after;
}

// Runs beside the reader of the backend, until there is nothing more to append.
Task<void> StreamRecorder::append_gathered() {
  appending_ = true;
  while (!gathered_.empty() && !failed_ && !oversize_) {
    auto chunk = std::make_shared<const std::string>(std::move(gathered_));
    gathered_.clear();
    const bool appended = co_await append(chunk);
    if (appended) {
      co_await publish(chunk);
    } else if (append_.status == OpStatus::failed && append_.fault == StoreFault::full) {
      gathered_.insert(0, *chunk);
      ports_.metrics.bodies_dropped.add();
      oversize_ = true;
    } else {
      failed_ = true;
    }
  }
  appending_ = false;
  if (awaits_appender_) awaits_appender_.resume();
}

Task<bool> StreamRecorder::append(OutcomeBytes chunk) {
  append_.outcome = std::move(chunk);
  // Without the execution: a claim that was handed to it has no chunks yet, and this one would not be its first.
  co_await ports_.claimant.end(append_, limits_.lease);
  const bool handed = append_.status == OpStatus::lost && take_handed(append_, &work_);
  // A failover may have lost chunks that were told already; their bytes are still here.
  const bool lost_some = append_.status == OpStatus::failed && append_.fault == StoreFault::refused;
  if (handed || lost_some) {
    const bool again = co_await append_all_again();
    co_return again;
  }
  if (append_.status != OpStatus::done) co_return false;
  ++append_.chunk;
  ports_.metrics.stream_chunks.add();
  ports_.metrics.stream_bytes.add(append_.outcome->size());
  co_return true;
}

// The claim was lost and this execution was handed a newer one, which has no chunks yet; or the store has lost some.
Task<bool> StreamRecorder::append_all_again() {
  OutcomeBytes last = std::move(append_.outcome);
  std::vector<OutcomeBytes> all = live_.chunks();
  all.push_back(std::move(last));
  append_.chunk = 0;
  for (OutcomeBytes& chunk : all) {
    append_.outcome = std::move(chunk);
    co_await ports_.claimant.end(append_, limits_.lease);
    if (append_.status != OpStatus::done) co_return false;
    ++append_.chunk;
  }
  co_return true;
}

Task<void> StreamRecorder::publish(OutcomeBytes chunk) {
  bool room = ports_.room == nullptr;
  if (!room) room = co_await ports_.room->take(chunk->size());
  if (!room) oversize_ = true;
  live_.publish(std::move(chunk), ports_.room != nullptr && room ? Counted::yes : Counted::no);
  ports_.readers.notify(live_.id());
}

Task<BodyChunk::Kind> StreamRecorder::relay(http::ResponseSource& source) {
  live_.forget_read(relay_window);
  BodyChunk chunk{.kind = BodyChunk::Kind::data, .data = gathered_};
  while (chunk.kind == BodyChunk::Kind::data) {
    if (!chunk.data.empty()) {
      live_.publish(std::make_shared<const std::string>(chunk.data), Counted::no);
      ports_.readers.notify(live_.id());
    }
    while (live_.fastest_is_behind() >= relay_window / 2) co_await sleep_for(ports_.home, relay_pause);
    if (source_ended_) co_return *source_ended_;
    chunk = co_await source.next(limits_.silence);
  }
  co_return chunk.kind;
}

}  // namespace once::gateway
