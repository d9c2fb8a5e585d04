// What goes back to the client: the backend's response, the recorded one, or a problem of our own. The head is
// complete but for what only the connection knows (Connection, and the framing of a body that streams).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "core/outcome.hpp"
#include "core/policy.hpp"
#include "core/problem.hpp"
#include "core/record.hpp"
#include "gateway/metrics.hpp"
#include "http/head.hpp"
#include "http/upstream.hpp"

namespace once::gateway {

// IMF-fixdate, as Date and Idempotency-Expires have it.
std::string http_date(Time time);
void append_http_date(std::string& out, Time time);

// The same for one who asks for the same second again and again.
class DateText {
 public:
  std::string_view at(Time time);

 private:
  Time second_ = Time::min();
  std::string text_;
};

// X-Request-Id, and where the wording asks for it Request-Id, unless the backend has given one.
void append_request_id(std::string& head, std::string_view request_id, const Wording& wording);

struct Reply {
  int status = 0;
  Ending ending = Ending::rejected;
  std::string head;       // status line and fields, each with its CRLF
  std::string_view body;  // in `outcome`, in `own_body` or in `source`
  OutcomeBytes outcome;
  std::string own_body;
  http::ResponseSourcePtr source;                // the body goes on from here
  Duration stream_idle{};                        // with a source: the longest silence of it
  std::optional<std::uint64_t> streamed_length;  // with a source: of the whole body, if known
  Attempt attempt{};
  bool known_key = false;           // the store had the key already
  bool reads_store = false;         // the source reads from the store
  bool streams = false;             // the source is a stream that is held in memory
  bool came_whole = false;          // what streams, from the backend
  std::optional<ClaimEnd> settled;  // what became of the claim, if this request had one
  bool dated = false;               // the head says when it was made
  DateText expires;                 // kept from reply to reply

  void reset();
  // Gives the memory of an idle connection back.
  void release_memory();
};

// Status line, stored fields, fields that are not stored (`extra`), and the marks of Once.
struct Marks {
  Ending ending;
  std::string_view request_id;
  std::string_view extra;          // fields of this response alone, such as Set-Cookie
  std::optional<Time> expires_at;  // Idempotency-Expires
  std::string_view replay_header;  // empty: not a replay
  const Wording& wording;          // of the route
};

void write_response(Reply& reply, const StoredResponse& response, const Marks& marks);

// What every problem is written with: where its page is, and in the words of which route.
struct ProblemForm {
  std::string_view type_base;
  const Wording& wording;
};

// One that is not retryable says so in X-Should-Retry, where client libraries look, and has no Retry-After.
void write_problem(Reply& reply, Problem problem, const ProblemForm& form, std::string_view request_id, Ending ending);

}  // namespace once::gateway
