#include "gateway/upstream/http_backend.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/sometimes.hpp"
#include "core/event_stream.hpp"
#include "core/headers.hpp"

namespace once::gateway {

namespace {

using http::BodyChunk;
using http::Framing;
using http::Io;
using http::IoResult;
using http::UpstreamConnection;
using http::UpstreamConnectionPtr;

Delivery delivery_of(UpstreamConnection::HeadRead read) {
  switch (read) {
    case UpstreamConnection::HeadRead::timed_out: return Delivery::timed_out;
    case UpstreamConnection::HeadRead::no_bytes: return Delivery::lost;
    case UpstreamConnection::HeadRead::broken: return Delivery::truncated;
    case UpstreamConnection::HeadRead::ok: break;
  }
  return Delivery::whole;
}

Delivery delivery_of(const http::ResponseHead& head) {
  return head.framing.kind == Framing::Kind::until_close ? Delivery::unframed : Delivery::whole;
}

// How the response body is handed to the exchange.
enum class Handover : std::uint8_t {
  whole,         // when it is complete, or larger than the recording limit
  with_head,     // with the head, as it arrives
  beyond_limit,  // when it is complete, or as it arrives once it exceeds the collect limit
};

Handover handover_of(const http::ResponseHead& head, const RecordPolicy* policy) {
  // 205 has no body, whatever its head says.
  const bool no_body = head.framing.kind == Framing::Kind::none || head.status == 205;
  if (policy == nullptr || no_body) return Handover::whole;
  const StreamedHead streamed{.status = head.status,
                              .content_type = head.find("Content-Type").value_or(""),
                              .backend = backend_policy_in(head)};
  if (is_recorded_as_it_streams(streamed, *policy)) return Handover::with_head;
  const Settlement settlement = settle(Delivery::whole, head.status, streamed.backend, *policy);
  return settlement.kind == Settlement::Kind::succeed ? Handover::beyond_limit : Handover::whole;
}

bool is_announced_longer(const http::ResponseHead& head, std::size_t limit) {
  return head.framing.kind == Framing::Kind::length && head.framing.length > limit;
}

// Measures the time until the end of the scope.
class Stopwatch {
 public:
  Stopwatch(UpstreamUse* use, const http::Loop& loop) : use_(use), loop_(loop), began_(loop.now()) {}
  ~Stopwatch() {
    if (use_ != nullptr) use_->took = loop_.now() - began_;
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  UpstreamUse* use_;
  const http::Loop& loop_;
  std::chrono::nanoseconds began_;
};

// Hands over the response with the part of the body that was read.
void hand_over(BackendAnswer& answer, UpstreamConnection& connection, std::string_view body) {
  // Over TLS an end without close_notify is reported as a broken connection, so a clean end was announced by the
  // backend.
  answer.end_announced = connection.socket().tls() != nullptr;
  answer.head = &connection.head();
  answer.body = body;
}

// The whole body is here, so it is sent with a Content-Length, even if the client sent chunks. A request without a body
// gets no length.
Framing framing_for(const BackendRequest& request) {
  if (request.head.framing.kind == Framing::Kind::none) return {};
  const std::uint64_t large = request.large_body != nullptr ? request.large_body->size() : 0;
  return {.kind = Framing::Kind::length, .length = std::max<std::uint64_t>(large, request.body.size())};
}

// A socket buffers this much without the backend reading it. A larger body is sent while the response is read.
constexpr std::size_t sent_first = std::size_t{64} << 10U;

bool is_sent_beside(const BackendRequest& request) {
  return request.keeper != nullptr && (request.large_body != nullptr || request.body.size() > sent_first);
}

// The gateway cannot read the body from its spool.
void note_unreadable(BackendAnswer& answer, Delivery delivery) {
  answer.delivery = delivery;
  answer.refused =
      problem(ProblemKind::overloaded,
              delivery == Delivery::not_sent
                  ? "The gateway could not read the request body back from its disk; nothing was executed."
                  : "The gateway could not read the rest of the request body back from its disk; it is unknown "
                    "whether the request was executed.");
}

BodyUploadPtr upload_of(const BackendRequest& request, UpstreamConnectionPtr connection) {
  return BodyUploadPtr(new BodyUpload({.connection = std::move(connection),
                                       .large_body = request.large_body,
                                       .body = request.body,
                                       .keeper = *request.keeper,
                                       .limit = request.timeouts.response}));
}

// Why there is no response, as far as the body's sender knows.
void note_end(BackendAnswer& answer, BodyUpload::End end) {
  switch (end) {
    case BodyUpload::End::whole:
    case BodyUpload::End::stopped: break;
    case BodyUpload::End::refused: answer.delivery = Delivery::lost; break;
    case BodyUpload::End::timed_out: answer.delivery = Delivery::timed_out; break;
    case BodyUpload::End::unreadable: note_unreadable(answer, Delivery::lost); break;
  }
}

}  // namespace

HttpBackend::HttpBackend(http::Loop& loop, UpstreamGroup& group, const Upstream& upstream, Duration keyed_idle_max,
                         std::string_view via)
    : loop_(loop), group_(group), upstream_(upstream), keyed_idle_max_(keyed_idle_max), via_(via) {}

ForwardedHead HttpBackend::head_for(const UpstreamGroup::Turn& turn) const {
  const std::string_view authority = group_.server(turn).authority;
  std::string_view host = upstream_.host;
  if (host == Upstream::keep_host) host = {};
  if (host == Upstream::own_host) host = authority;
  return {.base_path = upstream_.base_path,
          .authority = authority,
          .added_fields = {},
          .framing = {},
          .host = host,
          .forwarded = upstream_.forwarded,
          .via = upstream_.via ? via_ : std::string_view()};
}

Task<BackendAnswer> HttpBackend::send(const BackendRequest& request) {
  const Stopwatch stopwatch(request.use, loop_);
  ONCE_ASSERT(request.large_body == nullptr || request.keeper != nullptr);
  UpstreamGroup::Turn turn;
  const bool beside = is_sent_beside(request);
  const std::string_view body = beside ? std::string_view() : request.body;
  if (request.large_body != nullptr) {
    const auto first = co_await request.large_body->read(0);
    if (!first) {
      BackendAnswer unsent;
      note_unreadable(unsent, Delivery::not_sent);
      co_return unsent;
    }
  }
  while (true) {
    UpstreamConnectionPtr connection = group_.take_idle(turn, keyed_idle_max_);
    if (!connection) connection = co_await group_.connect(turn, keyed_idle_max_, request.timeouts.connect);
    if (!connection) {
      BackendAnswer unsent;
      if (turn.busy()) unsent.delivery = Delivery::busy;
      co_return unsent;
    }
    if (request.use != nullptr) request.use->server = group_.server(turn).authority;
    const bool reused = connection->reused();
    std::string& head = connection->request_head();
    ForwardedHead as = head_for(turn);
    as.added_fields = request.added_fields;
    as.framing = framing_for(request);
    as.strip_prefix = request.strip_prefix;
    as.origin = request.origin;
    // The whole response is recorded, not only the part that this client is missing.
    as.drop_resume = request.streams_by != nullptr && request.streams_by->stream != StreamRecording::off;
    write_forwarded_head(head, request.head, as);
    const bool joined = body.size() <= http::small_body;
    if (joined) head.append(body);
    const std::string_view rest = joined ? std::string_view() : body;
    const bool permitted = request.permit == nullptr || request.permit->may_send();
    sometimes<"backend: not sent, the claim may be lost">(!permitted);
    if (!permitted) co_return BackendAnswer();
    const IoResult sent = co_await connection->socket().write_all(head, rest, request.timeouts.response);
    if (sent.bytes == 0) {
      sometimes<"backend: nothing could be written to an idle connection">(reused);
      sometimes<"backend: nothing could be written to a new connection">(!reused);
      // Nothing was sent: try a new connection, or another server.
      connection.reset();
      if (!reused) group_.took_nothing(turn);
      continue;
    }
    BackendAnswer answer;
    if (beside && sent.status == Io::ok) {
      answer = co_await receive_beside(request, upload_of(request, std::move(connection)));
    } else {
      if (sent.status == Io::ok) connection->request_written();
      sometimes<"backend: half a request was written">(sent.status != Io::ok);
      // A backend that stopped reading may still have sent a response.
      answer = co_await receive(request, *connection, nullptr);
      if (answer.head != nullptr) answer.source = http::ResponseSourcePtr(connection.release());
      if (sent.status != Io::ok && answer.head == nullptr) {
        answer.delivery = sent.status == Io::timed_out ? Delivery::timed_out : Delivery::lost;
      }
    }
    // A failure of this process, such as an unreadable body, does not count against the server.
    const bool failed_here = answer.refused.has_value();
    if (!failed_here) group_.served(turn, answer.head != nullptr ? served_with(answer.head->status) : Served::badly);
    co_return answer;
  }
}

// If the response is incomplete, hand it over while the upload continues.
Task<BackendAnswer> HttpBackend::receive_beside(const BackendRequest& request, BodyUploadPtr upload) {
  upload->start();
  BackendAnswer answer = co_await receive(request, upload->connection(), upload.get());
  if (answer.delivery == Delivery::streaming || answer.delivery == Delivery::oversize) {
    answer.source = http::ResponseSourcePtr(upload.release());
    co_return answer;
  }
  if (answer.head != nullptr) {
    co_await upload->response_ended();
    if (upload->is_cut_off()) {
      BackendAnswer half;
      half.begun_status = answer.head->status;
      sometimes<"backend: answered, and the rest of the body could not be sent">();
      note_end(half, *upload->end());
      co_return half;
    }
    answer.source = http::ResponseSourcePtr(upload->take_connection().release());
  } else {
    co_await upload->stop();
    note_end(answer, *upload->end());
  }
  co_return answer;
}

Task<BackendAnswer> HttpBackend::receive(const BackendRequest& request, UpstreamConnection& connection,
                                         BodyUpload* upload) {
  BackendAnswer answer;
  auto deadline = loop_.now() + request.timeouts.response;
  while (true) {
    const auto read = co_await connection.read_head(request.head.method, deadline);
    if (read == UpstreamConnection::HeadRead::timed_out && upload != nullptr && upload->extend(deadline)) continue;
    if (read != UpstreamConnection::HeadRead::ok) {
      answer.delivery = delivery_of(read);
      answer.fault = connection.fault();
      co_return answer;
    }
    if (connection.head().status >= 200) break;
    if (connection.head().status == 101) {  // the client did not ask to upgrade
      answer.delivery = Delivery::truncated;
      answer.fault = http::ResponseFault::unasked_switch;
      sometimes<"backend: switches protocols unasked">();
      co_return answer;
    }
    if (request.interim != nullptr) co_await request.interim->interim(connection.head());
    connection.drop_head();
  }
  if (upload != nullptr) upload->answered();
  const Handover handover = handover_of(connection.head(), request.streams_by);
  if (handover == Handover::with_head) {
    answer.delivery = Delivery::streaming;
    hand_over(answer, connection, {});
    co_return answer;
  }
  const std::size_t most = request.max_response_body;
  const std::size_t limit = handover == Handover::beyond_limit ? std::min(most, most_collected) : most;
  std::optional<UpstreamConnection::Collected> body = connection.body_at_hand(limit);
  if (!body && handover == Handover::beyond_limit && is_announced_longer(connection.head(), limit)) {
    body = {.kind = BodyChunk::Kind::data, .whole = false, .data = {}};
  }
  if (!body) body = co_await connection.collect(limit, deadline, request.room, upload);
  switch (body->kind) {
    case BodyChunk::Kind::end:
    case BodyChunk::Kind::data:
      answer.delivery = delivery_of(connection.head());
      if (!body->whole) {
        sometimes<"backend: no memory for the response">(body->data.size() <= limit &&
                                                         !is_announced_longer(connection.head(), limit));
        // Without memory to collect it, the response is not kept either.
        const bool larger = is_announced_longer(connection.head(), limit) || body->data.size() > limit;
        const bool too_large = is_announced_longer(connection.head(), most) || body->data.size() > most;
        const bool recorded = handover == Handover::beyond_limit && larger && !too_large;
        answer.delivery = recorded ? Delivery::streaming : Delivery::oversize;
      }
      hand_over(answer, connection, body->data);
      break;
    case BodyChunk::Kind::broken:
      answer.delivery = Delivery::truncated;
      answer.fault = connection.fault();
      answer.begun_status = connection.head().status;
      break;
    case BodyChunk::Kind::timed_out:
      answer.delivery = Delivery::timed_out;
      answer.begun_status = connection.head().status;
      break;
  }
  co_return answer;
}

}  // namespace once::gateway
