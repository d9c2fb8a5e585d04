// The body of a keyed or guarded request, which must be whole before anything is decided.
#include "gateway/connection/client.hpp"

namespace once {

using http::BodyChunk;
using http::Framing;
using http::Io;
using http::IoResult;

// The common case: there is no body, or it came with the head and is used where it lies.
std::optional<Client::BodyRead> Client::body_at_hand(std::size_t limit) {
  const Framing& framing = io_.head.framing;
  whole_body_ = {};
  if (framing.kind == Framing::Kind::none) return BodyRead::whole;
  if (framing.kind != Framing::Kind::length) return std::nullopt;
  if (framing.length > limit) return BodyRead::too_large;
  const std::string_view unread = io_.buffer.unread();
  if (unread.size() < framing.length) return std::nullopt;
  whole_body_ = unread.substr(0, static_cast<std::size_t>(framing.length));
  if (framing.length > 0) io_.body.next(io_.buffer);
  return BodyRead::whole;
}

Task<Client::BodyRead> Client::read_body(std::size_t limit) {
  const std::size_t most = generation_->settings().limits.max_body_memory;
  const bool announced = io_.head.framing.kind == Framing::Kind::length;
  const std::size_t expected = announced ? static_cast<std::size_t>(io_.head.framing.length) : 0;
  body_.clear();
  if (!body_.may_take(expected, most)) co_return BodyRead::no_room;
  // The key is good and the size is right as far as it is known: only now is the client asked for the body.
  if (io_.head.expects_continue && io_.buffer.empty()) {
    const IoResult sent = co_await io_.socket.write_all("HTTP/1.1 100 Continue\r\n\r\n", io_.timeouts->body_idle);
    if (sent.status != Io::ok) co_return BodyRead::gone;
  }
  while (true) {
    if (worker_.refuses_unread()) co_return BodyRead::refused;
    reads_request_ = true;
    const BodyChunk chunk = co_await io_.next_body();
    reads_request_ = false;
    if (unread_refused_ && !displaced_) co_return BodyRead::refused;
    switch (chunk.kind) {
      case BodyChunk::Kind::data:
        if (body_.size() + chunk.data.size() > limit) co_return BodyRead::too_large;
        if (!body_.append(chunk.data, expected, most)) co_return BodyRead::no_room;
        break;
      case BodyChunk::Kind::end: whole_body_ = body_.view(); co_return BodyRead::whole;
      case BodyChunk::Kind::broken: co_return io_.sent_end ? BodyRead::gone : BodyRead::malformed;
      case BodyChunk::Kind::timed_out: co_return BodyRead::timed_out;
    }
  }
}

Task<void> Client::refuse_body(BodyRead read) {
  switch (read) {
    case BodyRead::whole: break;
    case BodyRead::gone: keep_ = false; break;
    case BodyRead::too_large:
      co_await write_problem_reply(ProblemKind::body_too_large, "The request body is larger than this route accepts.");
      break;
    case BodyRead::malformed:
      co_await write_problem_reply(ProblemKind::bad_request, "The request body is malformed.");
      break;
    case BodyRead::no_room: co_await refuse_overload(Overload::body_memory); break;
    case BodyRead::refused: co_await answer_unread(); break;
    case BodyRead::timed_out:
      worker_.metrics().slow_clients.add();
      co_await write_problem_reply(ProblemKind::request_timeout, "The request body did not arrive in time.");
      break;
  }
}

// Neither its head nor its body will be read to the end, and the store may be gone before the client has the answer.
Task<void> Client::answer_unread() {
  unread_refused_ = false;
  io_.socket.restore();
  io_.sent_end = false;
  io_.head.persistence = http::Persistence::close;
  body_unread_ = true;
  may_need_store(false);
  co_await write_problem_reply(ProblemKind::store_unavailable,
                               "The gateway is stopping or being replaced, and the request had not arrived "
                               "completely; nothing was executed.",
                               retry_soon_seconds);
}

}  // namespace once
