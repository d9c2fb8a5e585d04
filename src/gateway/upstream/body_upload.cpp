#include "gateway/upstream/body_upload.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/sometimes.hpp"

namespace once::gateway {

Task<std::optional<std::string_view>> MemoryBody::read(std::uint64_t offset) {
  co_return bytes_.substr(static_cast<std::size_t>(offset));
}

BodyUpload::BodyUpload(Parts parts)
    : connection_(std::move(parts.connection)),
      in_memory_(parts.body),
      body_(parts.large_body != nullptr ? *parts.large_body : in_memory_),
      keeper_(parts.keeper),
      limit_(parts.limit) {}

void BodyUpload::start() {
  ONCE_ASSERT(!end_);
  keeper_.sending_began();
  spawn(run());
}

Task<void> BodyUpload::run() {
  const End end = co_await send_all();
  finish(end);
}

Task<BodyUpload::End> BodyUpload::send_all() {
  std::uint64_t offset = 0;
  while (offset < body_.size()) {
    const auto piece = co_await body_.read(offset);
    if (stopping_) co_return End::stopped;
    if (!piece) co_return End::unreadable;
    ONCE_ASSERT(!piece->empty() && piece->size() <= body_.size() - offset);
    const http::IoResult sent = co_await connection_->socket().write_all(*piece, limit_);
    if (stopping_) co_return End::stopped;
    if (sent.status == http::Io::timed_out) co_return End::timed_out;
    if (sent.status != http::Io::ok) co_return End::refused;
    offset += piece->size();
  }
  co_return End::whole;
}

void BodyUpload::finish(End end) {
  ONCE_ASSERT(!end_);
  end_ = end;
  ended_at_ = connection_->socket().loop().now();
  // If the backend answered before the last byte was sent, it may never read the rest, and would parse it as the next
  // request: do not reuse the connection.
  if (end == End::whole && !answered_) connection_->request_written();
  // A backend that waits for the rest of the body will never answer: cancel, so that the reader of its response does
  // not wait for ever.
  if (end == End::unreadable || (end == End::timed_out && !answered_)) connection_->socket().cancel();
  BodyKeeper& keeper = keeper_;
  sometimes<"upload: outlives its request">(abandoned_);
  if (abandoned_) {
    // Free the connection first: the keeper of the body also owns objects that the connection needs.
    delete this;
    keeper.sending_ended();
    return;
  }
  keeper.sending_ended();
  ended_.set();
}

Task<void> BodyUpload::stop() {
  if (!end_) {
    stopping_ = true;
    connection_->socket().cancel();
  }
  co_await ended_;
}

// A backend that refused the request does not need the rest. Any other may still be reading: cutting the upload off
// would record a success for half a request.
Task<void> BodyUpload::response_ended() {
  if (is_refusal()) {
    sometimes<"upload: refused by the backend before its end">(!end_);
    co_await stop();
    co_return;
  }
  co_await ended_;
}

bool BodyUpload::is_cut_off() const {
  return !is_refusal() && (end_ == End::timed_out || end_ == End::unreadable);
}

Task<http::BodyChunk> BodyUpload::next(Duration limit) {
  using Kind = http::BodyChunk::Kind;
  if (!response_over_) {
    const http::BodyChunk chunk = co_await connection_->next(limit);
    if (chunk.kind != Kind::end) co_return chunk;
    response_over_ = true;
    if (is_refusal()) co_await stop();
  }
  http::Loop& loop = connection_->socket().loop();
  const bool in_time = co_await ended_.within(loop, limit);
  if (!in_time) co_return http::BodyChunk{.kind = Kind::timed_out, .data = {}};
  co_return http::BodyChunk{.kind = is_cut_off() ? Kind::broken : Kind::end, .data = {}};
}

void BodyUpload::done() {
  if (end_) {
    delete this;
    return;
  }
  abandoned_ = stopping_ = true;
  connection_->socket().cancel();
}

bool BodyUpload::extend(std::chrono::nanoseconds& deadline) const {
  const std::chrono::nanoseconds now = connection_->socket().loop().now();
  const std::chrono::nanoseconds later = (end_ ? ended_at_ : now) + limit_;
  if (later <= now) return false;
  deadline = later;
  return true;
}

}  // namespace once::gateway
