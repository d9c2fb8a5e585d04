// The reply to the client: the backend's response, the recorded one, or a problem of Once. It lacks only what its
// connection knows: framing, persistence, and a Date if it has none.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "core/fields.hpp"
#include "core/outcome.hpp"
#include "core/policy.hpp"
#include "core/problem.hpp"
#include "core/record.hpp"
#include "gateway/metrics.hpp"
#include "http/head.hpp"
#include "http/upstream.hpp"

namespace once::gateway {

// The date format of Date and Idempotency-Expires (IMF-fixdate).
std::string http_date(Time time);
void append_http_date(std::string& out, Time time);

// Every reply has a Date, including replays and responses whose backend sent none.
void add_date(Fields& fields, Time now);

// The same, cached for repeated use within a second.
class DateText {
 public:
  std::string_view at(Time time);

 private:
  Time second_ = Time::min();
  std::string text_;
};

// Adds X-Request-Id, and Request-Id if the wording asks for it, unless the backend has set one.
void add_request_id(Fields& fields, std::string_view request_id, const Wording& wording);

// Whether a response with this status says how long its body is. The Content-Length of a 304 would be that of the
// original body, whose length is not recorded.
bool says_length(int status);

struct Reply {
  int status = 0;
  Ending ending = Ending::rejected;
  std::string_view reason;  // a literal, or a view of `outcome`
  Fields fields;
  std::string_view body;  // a view of `outcome`, `own_body` or `source`
  OutcomeBytes outcome;
  std::string own_body;
  http::ResponseSourcePtr source;                // the rest of the body
  Duration stream_idle{};                        // the longest silence of `source`
  std::optional<std::uint64_t> streamed_length;  // the whole body's length, if known and streamed from `source`
  Attempt attempt{};
  bool known_key = false;           // the key was already in the store
  bool reads_store = false;         // the source reads from the store
  bool streams = false;             // the source is a live stream in memory
  bool came_whole = false;          // a live stream: the backend sent all of it
  std::optional<ClaimEnd> settled;  // how the claim of this request ended, if it had one
  bool dated = false;               // there is a Date among the fields
  DateText expires;                 // cached between replies

  void reset();
  // Releases the memory of an idle connection.
  void release_memory();
};

// Fills in the stored fields, fields that are not stored (`extra`), and Once's own fields.
struct Marks {
  Ending ending;
  std::string_view request_id;
  FieldsView extra;                // of this response only, such as Set-Cookie
  std::optional<Time> expires_at;  // Idempotency-Expires
  std::string_view replay_header;  // empty: not a replay
  const Wording& wording;          // of the route
};

void write_response(Reply& reply, const StoredResponse& response, const Marks& marks);

// The form of a problem: the base URL of its documentation, and the route's wording.
struct ProblemForm {
  std::string_view type_base;
  const Wording& wording;
};

// A problem that is not retryable has X-Should-Retry: false, which client libraries honour, and no Retry-After.
void write_problem(Reply& reply, Problem problem, const ProblemForm& form, std::string_view request_id, Ending ending);

}  // namespace once::gateway
