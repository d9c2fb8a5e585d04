// The part of PassThrough that gives a response an ETag: collects its body, within limits, before the head is sent.
#include "core/headers.hpp"
#include "core/reason.hpp"
#include "gateway/connection/reply.hpp"
#include "gateway/passthrough/passthrough.hpp"
#include "gateway/worker.hpp"

namespace once::gateway {

using http::BodyChunk;
using http::UpstreamConnection;

// A result if the request is answered now.
Task<std::optional<PassedResult>> PassThrough::hold_for_tag() {
  const Tagging& tagging = *request_->tagging;
  std::optional<UpstreamConnection::Collected> body = upstream_->body_at_hand(most_tagged_body);
  if (!body) {
    const auto deadline = client_.socket.loop().now() + longest_tagged_wait;
    body = co_await upstream_->collect(most_tagged_body, deadline, request_->tag_room);
  }
  if (body->kind == BodyChunk::Kind::broken) {
    if (client_gone_) co_return PassedResult{};
    co_return lost();
  }
  held_ = body->data;
  if (!body->whole) co_return std::nullopt;  // too large, too slow or no memory: it is relayed as it arrives
  etag_ = etag_of(upstream_->head(), body->data);
  if (tagging.none_match.empty() || !tagging.none_match.has(etag_, TagComparison::weak)) co_return std::nullopt;
  PassedResult result = co_await answer_not_modified();
  co_return result;
}

Task<PassedResult> PassThrough::answer_not_modified() {
  const http::ResponseHead& from = upstream_->head();
  metrics_.not_modified.add();
  fields_.clear();
  bool dated = false;
  for (const http::Field& field : from.fields) {
    dated = dated || same_name(field.name, "Date");
    const bool left_out =
        from.hop_by_hop(field.name) || describes_body(field.name) || same_name(field.name, "X-Request-Id");
    if (!left_out) fields_.add(field);
  }
  add_own_fields(dated);
  const bool keep = keeps_client(true);
  write_head(
      {.status = 304, .reason = reason_phrase(304), .fields = fields_.view(), .connection = connection_field(keep)});
  const http::IoResult sent = co_await client_.socket.write_all(head_, client_.timeouts->body_idle);
  head_.clear();
  co_return PassedResult{
      .status = 304, .keep = keep && sent.status == http::Io::ok, .whole = true, .problem = {}, .detail = {}};
}

}  // namespace once::gateway
