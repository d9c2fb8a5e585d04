// Writes the reply to a request: the exchange's, a problem of our own, a response that streams by, and interim
// responses before any of them. Says in the request whether the connection can be kept.
#pragma once

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

  // The reply to the request at hand, to be filled in and written. Reused, so that its memory is.
  Reply& reply() { return reply_; }
  const Reply& reply() const { return reply_; }

  // Adds what only the connection knows: date, CORS grant, framing, persistence. False: the client, or the backend in
  // the midst of a stream, is gone.
  Task<bool> write(RequestContext& request);
  Task<void> write_problem(RequestContext& request, Problem answer);
  // 204, with nothing but a request id: the answer to an OPTIONS whose Max-Forwards ends here. What the backend allows
  // is not known here.
  Task<void> write_no_content(RequestContext& request);
  Task<void> refuse_overload(RequestContext& request, Overload limit);

  // While a keyed request is at the backend. A client that is gone misses nothing that matters.
  Task<void> interim(const http::ResponseHead& head) override;

 private:
  Task<bool> stream_rest(bool chunked);

  Worker& worker_;
  ClientIo& io_;
  Reply reply_;
};

}  // namespace once::gateway
