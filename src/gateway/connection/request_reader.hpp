// Reads the requests of a connection: a head, and for requests that must be whole before anything is decided the body.
// Whatever is malformed, too large or too slow is refused here.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

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

// How large a body may be, and where it is held.
struct BodyBounds {
  std::size_t in_memory;
  // Larger ones go to the spool, up to this size; 0: none does.
  std::size_t on_disk = 0;
  const RequestIdentity* identity = nullptr;  // for their fingerprint
  std::string_view refusal = "The request body is larger than this route accepts.";
};

class RequestReader final : public BodyKeeper {
 public:
  RequestReader(Worker& worker, ClientIo& io, ReplyWriter& writer, RoomMaker& room)
      : worker_(worker), io_(io), writer_(writer), room_(room), held_(worker.shared().usage) {}

  enum class HeadRead : std::uint8_t {
    whole,
    refused,  // and answered
    closed,   // the client is gone
  };
  // The first bytes are in the buffer.
  Task<HeadRead> read_head(RequestContext& request);

  // The common case, without a wait: there is no body, or it came with the head and is used where it lies. False:
  // read_body() has to see to it.
  bool take_body_at_hand(std::size_t limit);
  // False: the request is refused and answered, or the client is gone.
  Task<bool> read_body(RequestContext& request, const BodyBounds& bounds);
  // As one of these has read it; until drop_body().
  std::string_view body() const { return body_; }
  // Instead, one that is not in memory. Null: it is.
  SpooledBody* large_body() const { return spooled_.get(); }

  // Now, or when it is not sent any more.
  void drop_body();
  void sending_began() override { sending_ = true; }
  void sending_ended() override;
  bool is_sending() const { return sending_; }
  // co_await reader.sending_end().
  struct SendingEnd {
    RequestReader& reader;

    bool await_ready() const noexcept { return !reader.sending_; }
    void await_suspend(std::coroutine_handle<> caller) const noexcept { reader.awaits_sending_ = caller; }
    void await_resume() const noexcept {}
  };
  SendingEnd sending_end() { return {*this}; }
  // A body is coming in, and takes memory or disk space by now.
  bool is_collecting() const { return reading_ && (held_.size() > 0 || spooled_ != nullptr); }
  bool is_spooling() const { return reading_ && spooled_ != nullptr; }
  // Gives the memory of an idle connection back.
  void release_memory() { held_.release(); }

  // A request that is still being read is refused: see Worker::refuses_unread().
  void refuse_unread();

 private:
  enum class BodyRead : std::uint8_t { whole, too_large, no_room, no_disk, malformed, timed_out, stopping, gone };

  void forget_head();
  // Whether the body, as far as its size is known, would find room.
  BodyRead judge_size(const RequestContext& request, const BodyBounds& bounds);
  Task<BodyRead> collect_body(const RequestContext& request, const BodyBounds& bounds);
  Task<BodyRead> take_part(const RequestContext& request, const BodyBounds& bounds, std::string_view data);
  Task<BodyRead> end_body(const RequestContext& request, const BodyBounds& bounds);
  Task<BodyRead> spool_held(const RequestContext& request, const BodyBounds& bounds);
  BodyRead spool_failed(const RequestContext& request, const SpoolError& error);
  bool announces() const { return io_.head.framing.kind == http::Framing::Kind::length; }
  Task<void> refuse_body(RequestContext& request, BodyRead read, const BodyBounds& bounds);
  Task<void> refuse_head(RequestContext& request, Problem answer);
  // The gateway stops: neither head nor body will be read to the end.
  Task<void> answer_unread(RequestContext& request);
  // refuse_unread() came while the request was read.
  bool was_refused() const { return unread_refused_ && !io_.displaced; }

  Worker& worker_;
  ClientIo& io_;
  ReplyWriter& writer_;
  RoomMaker& room_;
  HeldBody held_;  // the body, if it does not lie in the buffer as a whole, or what of it goes to disk next
  std::string_view body_;
  std::unique_ptr<SpooledBody> spooled_;
  std::coroutine_handle<> awaits_sending_;
  bool sending_ = false;       // the body, to the backend
  bool drop_pending_ = false;  // when it was sent
  bool reading_ = false;       // a head or a body, just now
  bool unread_refused_ = false;
};

}  // namespace once::gateway
