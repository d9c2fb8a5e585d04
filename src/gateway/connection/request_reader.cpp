#include "gateway/connection/request_reader.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/sometimes.hpp"
#include "gateway/exchange/answers.hpp"
#include "gateway/identity/head_problem.hpp"
#include "http/trace_context.hpp"

namespace once::gateway {

using http::BodyChunk;
using http::Framing;
using http::Io;
using http::IoResult;
using http::Parsed;

namespace {

constexpr std::size_t body_window = 4096;  // space for body bytes after the largest head
constexpr std::size_t most_empty_lines = 4;

}  // namespace

Task<RequestReader::MessageRead> RequestReader::read_head(RequestContext& request) {
  const ServingSettings& settings = request.settings();
  const http::HeadLimits limits{.max_bytes = settings.limits.max_header_bytes,
                                .max_fields = settings.limits.max_header_count,
                                .max_target = settings.limits.max_uri_bytes};
  http::Buffer& buffer = io_.buffer;
  io_.head.method = Method::other;
  forget_head();
  std::size_t skipped = 0;
  http::HeadProgress progress;
  while (true) {
    // Empty lines before a request are a common, harmless mistake.
    while (buffer.unread().starts_with("\r\n") && skipped < most_empty_lines) {
      buffer.consume(2);
      ++skipped;
      progress = {};
    }
    if (!buffer.empty() && progress.worth_parsing(buffer.unread(), limits)) {
      buffer.rewind();
      const http::ParseResult result = http::parse(buffer.unread(), limits, io_.head);
      if (result.parsed == Parsed::bad) {
        co_await refuse_head(request, head_problem(result.error));
        co_return MessageRead::refused;
      }
      if (result.parsed == Parsed::complete) {
        if (buffer.capacity() >= io_.head.size + body_window) {
          buffer.pin(io_.head.size);
          io_.body = http::BodyDecoder(io_.head.framing);
          io_.pace = {.least_rate = settings.limits.min_rate, .grace = settings.timeouts.body_idle};
          io_.read_body_at_hand();
          co_return MessageRead::whole;
        }
        buffer.grow(io_.head.size + body_window);  // moves the bytes, so the head is parsed again in the next round
        progress = {};
        continue;
      }
    }
    if (buffer.room().empty()) buffer.grow(std::min(buffer.capacity() * 2, limits.max_bytes + body_window));
    const Duration spent = std::chrono::floor<Duration>(worker_.loop().now() - request.began);
    const Duration left = std::max(Duration(1), settings.timeouts.header - spent);
    io_.head_awaited_since = request.began;
    reading_ = true;
    const IoResult got = co_await io_.socket.read_some(buffer.room(), left);
    reading_ = false;
    io_.head_awaited_since.reset();
    if (was_refused()) {
      forget_head();
      co_await answer_unread(request);
      co_return MessageRead::refused;
    }
    if (got.status != Io::ok && got.status != Io::timed_out) co_return MessageRead::closed;
    if (got.status == Io::timed_out || spent >= settings.timeouts.header) {
      co_await refuse_head(request,
                           problem(ProblemKind::request_timeout, "The request header did not arrive in time."));
      co_return MessageRead::refused;
    }
    buffer.commit(got.bytes);
  }
}

// The head is reused between requests, and its views may point to memory that has moved.
void RequestReader::forget_head() {
  io_.head.method_text = {};
  io_.head.path = {};
}

Task<void> RequestReader::refuse_head(RequestContext& request, Problem answer) {
  forget_head();
  request.close_unread();
  co_await writer_.write_problem(request, std::move(answer));
}

bool RequestReader::take_body_at_hand(std::size_t limit) {
  const Framing& framing = io_.head.framing;
  body_ = {};
  if (framing.kind == Framing::Kind::none) return true;
  if (framing.kind != Framing::Kind::length || framing.length > limit) return false;
  const std::string_view unread = io_.buffer.unread();
  if (unread.size() < framing.length) return false;
  body_ = unread.substr(0, static_cast<std::size_t>(framing.length));
  if (framing.length > 0) io_.body.next(io_.buffer);
  return true;
}

Task<RequestReader::MessageRead> RequestReader::read_body(RequestContext& request, const BodyBounds& bounds) {
  const BodyRead read = co_await collect_body(request, bounds);
  if (read == BodyRead::whole) co_return MessageRead::whole;
  drop_body();
  co_await refuse_body(request, read, bounds);
  co_return read == BodyRead::gone ? MessageRead::closed : MessageRead::refused;
}

RequestReader::BodyRead RequestReader::judge_size(const RequestContext& request, const BodyBounds& bounds) {
  const Limits& limits = request.settings().limits;
  if (!announces()) return BodyRead::whole;
  const std::uint64_t length = io_.head.framing.length;
  if (length > std::max(bounds.in_memory, bounds.on_disk)) return BodyRead::too_large;
  const bool in_memory = length <= bounds.in_memory;
  const std::size_t expected = in_memory ? static_cast<std::size_t>(length) : spool_piece;
  if (!held_.may_take(expected, limits.max_body_memory)) return BodyRead::no_room;
  if (!in_memory && !worker_.shared().spool->may_take(length, limits.max_spool)) {
    if (length <= limits.max_spool) room_.make_spool_room();
    return BodyRead::no_disk;
  }
  return BodyRead::whole;
}

Task<RequestReader::BodyRead> RequestReader::collect_body(const RequestContext& request, const BodyBounds& bounds) {
  held_.clear();
  const BodyRead judged = judge_size(request, bounds);
  if (judged != BodyRead::whole) co_return judged;
  sometimes<"request: the client waits for 100 Continue">(io_.head.expects_continue && io_.buffer.empty());
  // Ask for the body only now that the key is valid and the size, as far as known, is allowed.
  if (io_.head.expects_continue && io_.buffer.empty()) {
    const IoResult sent = co_await io_.socket.write_all("HTTP/1.1 100 Continue\r\n\r\n", io_.timeouts->body_idle);
    if (sent.status != Io::ok) co_return BodyRead::gone;
  }
  while (true) {
    if (worker_.refuses_unread()) co_return BodyRead::stopping;
    reading_ = true;
    const BodyChunk chunk = co_await io_.next_body();
    reading_ = false;
    if (was_refused()) co_return BodyRead::stopping;
    switch (chunk.kind) {
      case BodyChunk::Kind::data: {
        const BodyRead taken = co_await take_part(request, bounds, chunk.data);
        if (taken != BodyRead::whole) co_return taken;
        break;
      }
      case BodyChunk::Kind::end: {
        const BodyRead ended = co_await end_body(request, bounds);
        co_return ended;
      }
      case BodyChunk::Kind::broken: co_return io_.sent_end ? BodyRead::gone : BodyRead::malformed;
      case BodyChunk::Kind::timed_out: co_return BodyRead::timed_out;
    }
  }
}

// A body of unknown length stays in memory as long as it fits.
Task<RequestReader::BodyRead> RequestReader::take_part(const RequestContext& request, const BodyBounds& bounds,
                                                       std::string_view data) {
  const std::uint64_t size = held_.size() + data.size() + (spooled_ ? spooled_->size() : 0);
  if (size > std::max(bounds.in_memory, bounds.on_disk)) co_return BodyRead::too_large;
  const bool on_disk = spooled_ != nullptr || (announces() && io_.head.framing.length > bounds.in_memory);
  const std::size_t most_held = on_disk ? spool_piece : bounds.in_memory;
  if (held_.size() + data.size() > most_held) {
    const BodyRead spooled = co_await spool_held(request, bounds);
    if (spooled != BodyRead::whole) co_return spooled;
  }
  const bool in_memory = announces() && !on_disk;
  const std::size_t expected = in_memory ? static_cast<std::size_t>(io_.head.framing.length) : 0;
  const Reserved room = held_.append(data, expected, request.settings().limits.max_body_memory);
  co_return room == Reserved::yes ? BodyRead::whole : BodyRead::no_room;
}

Task<RequestReader::BodyRead> RequestReader::spool_held(const RequestContext& request, const BodyBounds& bounds) {
  const Limits& limits = request.settings().limits;
  if (!spooled_) {
    SpooledBody::Parts parts{.spool = *worker_.shared().spool,
                             .home = worker_.loop(),
                             .usage = worker_.shared().usage,
                             .directory = limits.spool_directory,
                             .most_on_disk = limits.max_spool,
                             .most_in_memory = limits.max_body_memory};
    const auto length = announces() ? std::optional(io_.head.framing.length) : std::nullopt;
    spooled_ = std::make_unique<SpooledBody>(std::move(parts), bounds.identity->large_fingerprint(length));
  }
  const SpoolResult<void> written = co_await spooled_->write(held_.view());
  if (!written) co_return spool_failed(request, written.error());
  if (held_.size() > spool_piece) {
    held_.release();
  } else {
    held_.reuse();
  }
  co_return BodyRead::whole;
}

// Whether a body counts as large depends on its size, not on its framing.
Task<RequestReader::BodyRead> RequestReader::end_body(const RequestContext& request, const BodyBounds& bounds) {
  if (!spooled_ && held_.size() <= bounds.in_memory) {
    body_ = held_.view();
    co_return BodyRead::whole;
  }
  const BodyRead spooled = co_await spool_held(request, bounds);
  if (spooled != BodyRead::whole) co_return spooled;
  held_.release();
  if (spooled_->take_memory() == Reserved::no) co_return BodyRead::no_room;
  const SpoolResult<void> finished = co_await spooled_->finish();
  if (!finished) co_return spool_failed(request, finished.error());
  co_return BodyRead::whole;
}

RequestReader::BodyRead RequestReader::spool_failed(const RequestContext& request, const SpoolError& error) {
  worker_.shared().log.warn("large request body not stored on disk",
                            {{"request", request.id()},
                             {"directory", request.settings().limits.spool_directory},
                             {"error", error.detail},
                             {"trace", http::trace_id(io_.head)}});
  if (error.fault == SpoolFault::full) room_.make_spool_room();
  return BodyRead::no_disk;
}

Task<void> RequestReader::refuse_body(RequestContext& request, BodyRead read, const BodyBounds& bounds) {
  switch (read) {
    case BodyRead::whole: break;
    case BodyRead::gone: request.keep = false; break;
    case BodyRead::too_large:
      sometimes<"request: too large">();
      co_await writer_.write_problem(request, problem(ProblemKind::body_too_large, std::string(bounds.refusal)));
      break;
    case BodyRead::malformed:
      sometimes<"request: a malformed body">();
      co_await writer_.write_problem(request, problem(ProblemKind::bad_request, "The request body is malformed."));
      break;
    case BodyRead::no_room:
      sometimes<"request: no memory for the body">();
      room_.make_room();
      co_await writer_.refuse_overload(request, Overload::body_memory);
      break;
    case BodyRead::no_disk:
      sometimes<"request: no room in the spool">();
      co_await writer_.refuse_overload(request, Overload::spool);
      break;
    case BodyRead::stopping:
      sometimes<"request: not read when the gateway stops">();
      co_await answer_unread(request);
      break;
    case BodyRead::timed_out:
      sometimes<"request: the body takes too long">();
      worker_.metrics().slow_clients.add();
      co_await writer_.write_problem(request,
                                     problem(ProblemKind::request_timeout, "The request body did not arrive in time."));
      break;
  }
}

// The reply does not need the store, which may be handed over before the client reads it.
Task<void> RequestReader::answer_unread(RequestContext& request) {
  unread_refused_ = false;
  io_.socket.restore();
  io_.sent_end = false;
  request.close_unread();
  request.store_need.end();
  Problem answer = problem(ProblemKind::store_unavailable,
                           "The gateway is stopping or being replaced, and the request had not arrived completely; "
                           "nothing was executed.");
  answer.retry_after_seconds = retry_soon_seconds;
  co_await writer_.write_problem(request, std::move(answer));
}

void RequestReader::drop_body() {
  drop_pending_ = is_sending();
  if (!drop_pending_) discard_body();
}

void RequestReader::discard_body() {
  drop_pending_ = false;
  body_ = {};
  held_.clear();
  spooled_.reset();
}

void RequestReader::sending_ended() {
  if (drop_pending_) discard_body();
  sent_.set();
}

void RequestReader::refuse_unread() {
  if (!reading_ || io_.displaced) return;
  unread_refused_ = true;
  io_.socket.cancel();
}

}  // namespace once::gateway
