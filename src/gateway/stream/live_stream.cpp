#include "gateway/stream/live_stream.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/sometimes.hpp"

namespace once::gateway {

LiveStream::~LiveStream() {
  while (!chunks_.empty()) forget_first();
}

Nonce LiveStream::nonce() const {
  const std::scoped_lock lock(mutex_);
  return nonce_;
}

void LiveStream::hand_over(const Nonce& nonce) {
  const std::scoped_lock lock(mutex_);
  nonce_ = nonce;
}

void LiveStream::begin(OutcomeBytes head) {
  const std::scoped_lock lock(mutex_);
  ONCE_ASSERT(head_ == nullptr && head != nullptr);
  head_ = std::move(head);
}

void LiveStream::publish(OutcomeBytes chunk, std::size_t most) {
  const std::scoped_lock lock(mutex_);
  ONCE_ASSERT(!relayed_from_ && !chunk->empty());  // an empty chunk would end the recorded part
  all_bytes_ += chunk->size();
  if (usage_.take(HeldFor::response, chunk->size(), most) == Reserved::yes) {
    hold(std::move(chunk), Counted::yes);
    return;
  }
  sometimes<"stream: no memory for its readers">();
  while (!chunks_.empty()) forget_first();
  ++first_;
}

void LiveStream::relay(OutcomeBytes chunk) {
  const std::scoped_lock lock(mutex_);
  ONCE_ASSERT(relayed_from_.has_value());
  all_bytes_ += chunk->size();
  hold(std::move(chunk), Counted::no);
}

void LiveStream::hold(OutcomeBytes chunk, Counted counted) {
  held_bytes_ += chunk->size();
  chunks_.push_back({.chunk = std::move(chunk), .counted = counted});
  trim();
}

void LiveStream::forget_first() {
  const Held& held = chunks_.front();
  ONCE_ASSERT(held_bytes_ >= held.chunk->size());
  held_bytes_ -= held.chunk->size();
  if (held.counted == Counted::yes) usage_.give_back(HeldFor::response, held.chunk->size());
  chunks_.pop_front();
  ++first_;
}

void LiveStream::end(StreamState state) {
  const std::scoped_lock lock(mutex_);
  state_ = state;
}

void LiveStream::stop() {
  stopped_.store(true, std::memory_order_relaxed);
  end(StreamState::cut);
  ask_owner_to_look();
}

void LiveStream::end_as_committed(OutcomeBytes response) {
  const std::scoped_lock lock(mutex_);
  state_ = StreamState::whole;
  committed_ = std::move(response);
}

void LiveStream::begin_relay(std::size_t relay_window) {
  const std::scoped_lock lock(mutex_);
  ONCE_ASSERT(!relayed_from_);
  relayed_from_ = next();
  relay_window_ = relay_window;
  trim();
}

std::uint32_t LiveStream::fastest() const {
  std::uint32_t fastest = 0;
  for (const Place* place : places_) fastest = std::max(fastest, place->chunk_);
  return fastest;
}

// The last chunk always stays, however large: a reader that keeps up never needs the store. While relaying, drops
// chunks that every reader has read, or that are only needed by readers beyond the window.
void LiveStream::trim() {
  if (!relayed_from_) {
    while (chunks_.size() > 1 && held_bytes_ > window) forget_first();
    return;
  }
  std::uint32_t needed = next();
  for (const Place* place : places_) needed = std::min(needed, place->chunk_);
  const std::uint32_t had = places_.empty() ? next() : fastest();
  while (!chunks_.empty() && (first_ < needed || (held_bytes_ > relay_window_ && first_ < had))) forget_first();
}

// Unread bytes in memory of the fastest reader.
std::size_t LiveStream::lacks() const {
  if (places_.empty()) return 0;
  std::size_t bytes = 0;
  for (std::uint32_t i = std::max(fastest(), first_); i < next(); ++i) bytes += chunks_[i - first_].chunk->size();
  return bytes;
}

bool LiveStream::fastest_is_behind(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  owner_waits_.reset();
  if (lacks() < bytes) return false;
  owner_waits_ = bytes;
  return true;
}

bool LiveStream::all_read_store() const {
  const std::scoped_lock lock(mutex_);
  return !places_.empty() && fastest() < first_;
}

LiveStream::HeldChunks LiveStream::held() const {
  const std::scoped_lock lock(mutex_);
  HeldChunks held{.first = first_ == 1 ? 0 : first_};
  if (held.first == 0) held.chunks.push_back(head_);
  for (const Held& each : chunks_) held.chunks.push_back(each.chunk);
  return held;
}

OutcomeBytes LiveStream::head() const {
  const std::scoped_lock lock(mutex_);
  return relayed_from_ ? nullptr : head_;
}

LiveStream::Look LiveStream::look(const Place& place) const {
  using enum Look::Found;
  const std::scoped_lock lock(mutex_);
  Look look{.state = state_, .committed = committed_};
  if (place.chunk_ < first_) {
    look.found = place.chunk_ < relayed_from_.value_or(first_) ? in_store : gone;
  } else if (place.chunk_ < next()) {
    look.found = chunk;
    look.chunk = chunks_[place.chunk_ - first_].chunk;
  }
  return look;
}

std::size_t LiveStream::readers() const {
  const std::scoped_lock lock(mutex_);
  return places_.size();
}

std::size_t LiveStream::bytes() const {
  const std::scoped_lock lock(mutex_);
  return held_bytes_;
}

StreamInfo LiveStream::info() const {
  const std::scoped_lock lock(mutex_);
  return {.id = id_, .attempt = attempt_, .labels = labels_, .bytes = all_bytes_, .readers = places_.size()};
}

LiveStream::Place::Place(std::shared_ptr<LiveStream> stream) : stream_(std::move(stream)) {
  const std::scoped_lock lock(stream_->mutex_);
  stream_->places_.push_back(this);
}

LiveStream::Place::~Place() {
  const std::scoped_lock lock(stream_->mutex_);
  std::erase(stream_->places_, this);
  stream_->trim();
}

LiveStream::Place::Owner LiveStream::Place::advance(std::size_t chunks) {
  const std::scoped_lock lock(stream_->mutex_);
  chunk_ += static_cast<std::uint32_t>(chunks);
  stream_->trim();
  if (!stream_->owner_waits_ || stream_->lacks() >= *stream_->owner_waits_) return Owner::runs;
  stream_->owner_waits_.reset();
  return Owner::wakes;
}

void LiveStreams::list(const std::shared_ptr<LiveStream>& stream) {
  Shard& shard = shard_of(stream->id());
  const std::scoped_lock lock(shard.mutex);
  shard.streams[stream->id()] = stream;
}

void LiveStreams::remove(const LiveStream& stream) {
  Shard& shard = shard_of(stream.id());
  const std::scoped_lock lock(shard.mutex);
  const auto found = shard.streams.find(stream.id());
  if (found != shard.streams.end() && found->second.get() == &stream) shard.streams.erase(found);
}

std::shared_ptr<LiveStream> LiveStreams::find(const OperationId& id) {
  Shard& shard = shard_of(id);
  const std::scoped_lock lock(shard.mutex);
  const auto found = shard.streams.find(id);
  return found == shard.streams.end() ? nullptr : found->second;
}

void LiveStreams::stop(const OperationId& id) {
  const std::shared_ptr<LiveStream> stream = find(id);
  if (!stream) return;
  stream->stop();
  readers_.notify(id);
}

LiveStreams::Counts LiveStreams::counts() const {
  Counts counts;
  for (const Shard& shard : shards_) {
    const std::scoped_lock lock(shard.mutex);
    counts.streams += shard.streams.size();
    for (const auto& [id, stream] : shard.streams) {
      counts.readers += stream->readers();
      counts.bytes += stream->bytes();
    }
  }
  return counts;
}

std::vector<StreamInfo> LiveStreams::snapshot() const {
  std::vector<StreamInfo> infos;
  for (const Shard& shard : shards_) {
    const std::scoped_lock lock(shard.mutex);
    for (const auto& [id, stream] : shard.streams) infos.push_back(stream->info());
  }
  std::ranges::sort(infos, {}, [](const StreamInfo& info) { return std::pair(info.labels.since, info.id.view()); });
  return infos;
}

}  // namespace once::gateway
