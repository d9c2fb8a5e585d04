// Reads the requests of a connection: the head and, for requests that must be complete before any decision, the body.
// Refuses malformed, too large and too slow requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/event.hpp"
#include "base/task.hpp"
#include "core/problem.hpp"
#include "gateway/connection/client_io.hpp"
#include "gateway/connection/reply_writer.hpp"
#include "gateway/connection/request_context.hpp"
#include "gateway/limits/response_memory.hpp"
#include "gateway/limits/usage.hpp"
#include "gateway/spool/spooled_body.hpp"
#include "gateway/worker.hpp"

namespace once::gateway {

// The size limits of a body, and where it is kept.
struct BodyBounds {
  std::size_t in_memory;
  // Larger bodies go to the spool, up to this size; 0: they are refused.
  std::size_t on_disk = 0;
  const RequestIdentity* identity = nullptr;  // for their fingerprint
  std::string_view refusal = "The request body is larger than this route accepts.";
};

class RequestReader final : public BodyKeeper {
 public:
  RequestReader(Worker& worker, ClientIo& io, ReplyWriter& writer, RoomMaker& room)
      : worker_(worker), io_(io), writer_(writer), room_(room), held_(worker.shared().usage) {}

  enum class MessageRead : std::uint8_t {
    whole,
    refused,  // refused and already answered
    closed,   // the client has left
  };
  // Call when the first bytes are in the buffer.
  Task<MessageRead> read_head(RequestContext& request);

  // Takes the body without a wait, if there is none or it arrived with the head: it is used in place. Otherwise call
  // read_body().
  bool take_body_at_hand(std::size_t limit);
  Task<MessageRead> read_body(RequestContext& request, const BodyBounds& bounds);
  // The body that take_body_at_hand() or read_body() has read; valid until drop_body().
  std::string_view body() const { return body_; }
  // The body, if it is not in memory. Null: it is.
  SpooledBody* large_body() const { return spooled_.get(); }

  // Frees the body, now or after its upload.
  void drop_body();
  void sending_began() override { sent_.clear(); }
  void sending_ended() override;
  bool is_sending() const { return !sent_.is_set(); }
  // The body is not being sent to the backend.
  Event& sent() { return sent_; }
  // Whether a body is being received and already takes memory or disk space.
  bool is_collecting() const { return reading_ && (held_.size() > 0 || spooled_ != nullptr); }
  bool is_spooling() const { return reading_ && spooled_ != nullptr; }
  // Releases the memory of an idle connection.
  void release_memory() { held_.release(); }

  // Refuses the request while it is still being read: see Worker::refuses_unread().
  void refuse_unread();

 private:
  enum class BodyRead : std::uint8_t { whole, too_large, no_room, no_disk, malformed, timed_out, stopping, gone };

  void forget_head();
  void discard_body();
  // Whether there is space for the body, as far as its size is known.
  BodyRead judge_size(const RequestContext& request, const BodyBounds& bounds);
  Task<BodyRead> collect_body(const RequestContext& request, const BodyBounds& bounds);
  Task<BodyRead> take_part(const RequestContext& request, const BodyBounds& bounds, std::string_view data);
  Task<BodyRead> end_body(const RequestContext& request, const BodyBounds& bounds);
  Task<BodyRead> spool_held(const RequestContext& request, const BodyBounds& bounds);
  BodyRead spool_failed(const RequestContext& request, const SpoolError& error);
  bool announces() const { return io_.head.framing.kind == http::Framing::Kind::length; }
  Task<void> refuse_body(RequestContext& request, BodyRead read, const BodyBounds& bounds);
  Task<void> refuse_head(RequestContext& request, Problem answer);
  // The gateway is stopping: answers a request that will not be read completely.
  Task<void> answer_unread(RequestContext& request);
  // Whether refuse_unread() came while the request was read.
  bool was_refused() const { return unread_refused_ && !io_.displaced; }

  Worker& worker_;
  ClientIo& io_;
  ReplyWriter& writer_;
  RoomMaker& room_;
  HeldBody held_;  // the body, if it is not all in the buffer, or its next part for the disk
  std::string_view body_;
  std::unique_ptr<SpooledBody> spooled_;
  Event sent_{Event::Initially::set};
  bool drop_pending_ = false;  // drop the body once it was sent
  bool reading_ = false;       // a head or a body is being read
  bool unread_refused_ = false;
};

}  // namespace once::gateway
