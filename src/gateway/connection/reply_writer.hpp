// Writes the reply to a request: the exchange's, a problem, a response that passes through, and interim responses
// before those. Records in the request whether the connection can be kept.
#pragma once

#include <string>
#include <string_view>

#include "base/task.hpp"
#include "core/problem.hpp"
#include "gateway/connection/client_io.hpp"
#include "gateway/connection/reply.hpp"
#include "gateway/connection/request_context.hpp"
#include "gateway/exchange/backend.hpp"
#include "gateway/metrics.hpp"
#include "gateway/worker.hpp"

namespace once::gateway {

class ReplyWriter final : public InterimSink {
 public:
  ReplyWriter(Worker& worker, ClientIo& io) : worker_(worker), io_(io) {}

  // The reply to fill in and write for the current request. Reused to keep its memory.
  Reply& reply() { return reply_; }
  const Reply& reply() const { return reply_; }

  // Releases the memory of an idle connection.
  void release_memory();

  // Adds what only the connection knows: date, CORS fields, framing, persistence. cut_off: the client has left, or the
  // source broke off.
  Task<http::Transfer> write(RequestContext& request);
  Task<void> write_problem(RequestContext& request, Problem answer);
  // Replies 204 with just a request id to an OPTIONS whose Max-Forwards ends here: the methods that the backend allows
  // are unknown here.
  Task<void> write_no_content(RequestContext& request);
  Task<void> refuse_overload(RequestContext& request, Overload limit);

  // Called while a keyed request is at the backend. A client that has left misses nothing important.
  Task<void> interim(const http::ResponseHead& head) override;

 private:
  http::Framing framing(bool chunked) const;
  http::ConnectionField connection_field(bool keep) const;
  Task<http::Transfer> stream_rest(bool chunked);

  Worker& worker_;
  ClientIo& io_;
  Reply reply_;
  std::string head_;  // as written
};

}  // namespace once::gateway
