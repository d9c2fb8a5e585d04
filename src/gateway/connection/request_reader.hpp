// Reads the requests of a connection: a head, and for requests that must be whole before anything is decided the body.
// Whatever is malformed, too large or too slow is refused here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/task.hpp"
#include "core/problem.hpp"
#include "gateway/connection/client_io.hpp"
#include "gateway/connection/reply_writer.hpp"
#include "gateway/connection/request_context.hpp"
#include "gateway/limits/response_memory.hpp"
#include "gateway/limits/usage.hpp"
#include "gateway/worker.hpp"

namespace once::gateway {

class RequestReader {
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
  Task<bool> read_body(RequestContext& request, std::size_t limit);
  // As one of these has read it; until drop_body().
  std::string_view body() const { return body_; }

  void drop_body();
  // Gives the memory of an idle connection back.
  void release_memory() { held_.release(); }

  // A request that is still being read is refused: see Worker::refuses_unread().
  void refuse_unread();

 private:
  enum class BodyRead : std::uint8_t { whole, too_large, no_room, malformed, timed_out, stopping, gone };

  void forget_head();
  Task<BodyRead> collect_body(const RequestContext& request, std::size_t limit);
  Task<void> refuse_body(RequestContext& request, BodyRead read);
  Task<void> refuse_head(RequestContext& request, Problem answer);
  // The gateway stops: neither head nor body will be read to the end.
  Task<void> answer_unread(RequestContext& request);
  // refuse_unread() came while the request was read.
  bool was_refused() const { return unread_refused_ && !io_.displaced; }

  Worker& worker_;
  ClientIo& io_;
  ReplyWriter& writer_;
  RoomMaker& room_;
  HeldBody held_;  // the body, if it does not lie in the buffer as a whole
  std::string_view body_;
  bool reading_ = false;  // a head or a body, just now
  bool unread_refused_ = false;
};

}  // namespace once::gateway
