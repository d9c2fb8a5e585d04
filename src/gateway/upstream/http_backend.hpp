// A backend over HTTP/1.1. Sends a request at most once: another connection, to the same server or another one, is
// tried only while no byte was written.
#pragma once

#include "gateway/exchange/backend.hpp"
#include "gateway/settings.hpp"
#include "gateway/upstream/body_upload.hpp"
#include "gateway/upstream/forward.hpp"
#include "gateway/upstream/upstream_group.hpp"
#include "http/loop.hpp"
#include "http/upstream.hpp"

namespace once::gateway {

class HttpBackend final : public Backend {
 public:
  // `via` is the name of this gateway; the caller keeps it alive.
  HttpBackend(http::Loop& loop, UpstreamGroup& group, const Upstream& upstream, Duration keyed_idle_max,
              std::string_view via);

  Task<BackendAnswer> send(const BackendRequest& request) override;

  UpstreamGroup& group() { return group_; }
  RetrySafe retry_safe() const { return upstream_.retry_safe; }
  // The parts of a forwarded head that depend on the upstream and its current server.
  ForwardedHead head_for(const UpstreamGroup::Turn& turn) const;

 private:
  // Reads a response. If the response is handed over unfinished, its connection stays with the caller.
  Task<BackendAnswer> receive(const BackendRequest& request, http::UpstreamConnection& connection, BodyUpload* upload);
  Task<BackendAnswer> receive_beside(const BackendRequest& request, BodyUploadPtr upload);

  http::Loop& loop_;
  UpstreamGroup& group_;
  const Upstream& upstream_;
  // The longest idle time of a connection for a keyed request: one that the backend closes just then looks like a lost
  // request, and its outcome would be unknown.
  Duration keyed_idle_max_;
  const std::string_view via_;
};

}  // namespace once::gateway
