#include "gateway/stream/live_stream.hpp"

#include <algorithm>
#include <utility>

namespace once::gateway {

LiveStream::~LiveStream() {
  while (!chunks_.empty()) forget_first();
}

void LiveStream::publish(OutcomeBytes chunk, Counted counted) {
  const std::scoped_lock lock(mutex_);
  held_bytes_ += chunk->size();
  chunks_.push_back({.chunk = std::move(chunk), .counted = counted});
  trim();
}

void LiveStream::forget_first() {
  const Held& held = chunks_.front();
  held_bytes_ -= held.chunk->size();
  if (held.counted == Counted::yes) usage_.give_back(HeldFor::response, held.chunk->size());
  chunks_.pop_front();
  ++first_;
}

void LiveStream::end(StreamState state) {
  const std::scoped_lock lock(mutex_);
  state_ = state;
}

void LiveStream::forget_read(std::size_t window) {
  const std::scoped_lock lock(mutex_);
  window_ = window;
  trim();
}

// Forgets what every reader has, and what only those need that are further behind than the window.
void LiveStream::trim() {
  if (window_ == 0) return;
  const std::size_t end = first_ + chunks_.size();
  std::size_t needed = end;
  std::size_t fastest = places_.empty() ? end : 0;
  for (const Place* place : places_) {
    needed = std::min(needed, place->chunk_);
    fastest = std::max(fastest, place->chunk_);
  }
  while (!chunks_.empty() && (first_ < needed || (held_bytes_ > window_ && first_ < fastest))) forget_first();
}

std::size_t LiveStream::fastest_is_behind() const {
  const std::scoped_lock lock(mutex_);
  if (places_.empty()) return 0;
  std::size_t fastest = 0;
  for (const Place* place : places_) fastest = std::max(fastest, place->chunk_);
  std::size_t behind = 0;
  for (std::size_t i = std::max(fastest, first_); i < first_ + chunks_.size(); ++i) {
    behind += chunks_[i - first_].chunk->size();
  }
  return behind;
}

std::vector<OutcomeBytes> LiveStream::chunks() const {
  const std::scoped_lock lock(mutex_);
  std::vector<OutcomeBytes> all;
  all.reserve(chunks_.size());
  for (const Held& held : chunks_) all.push_back(held.chunk);
  return all;
}

OutcomeBytes LiveStream::head() const {
  const std::scoped_lock lock(mutex_);
  return window_ > 0 || chunks_.empty() ? nullptr : chunks_.front().chunk;
}

LiveStream::Look LiveStream::look(const Place& place) const {
  const std::scoped_lock lock(mutex_);
  if (place.chunk_ < first_) return {.chunk = nullptr, .state = StreamState::cut};
  if (place.chunk_ < first_ + chunks_.size()) return {.chunk = chunks_[place.chunk_ - first_].chunk, .state = state_};
  return {.chunk = nullptr, .state = state_};
}

std::size_t LiveStream::readers() const {
  const std::scoped_lock lock(mutex_);
  return places_.size();
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

void LiveStream::Place::advance() {
  const std::scoped_lock lock(stream_->mutex_);
  ++chunk_;
  stream_->trim();
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
  stream->end(StreamState::cut);
  readers_.notify(id);
}

LiveStreams::Counts LiveStreams::counts() {
  Counts counts;
  for (Shard& shard : shards_) {
    const std::scoped_lock lock(shard.mutex);
    counts.streams += shard.streams.size();
    for (const auto& [id, stream] : shard.streams) counts.readers += stream->readers();
  }
  return counts;
}

}  // namespace once::gateway
