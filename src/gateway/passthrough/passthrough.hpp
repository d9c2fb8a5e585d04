// Requests that Once does not protect: streamed in both directions as they come, nothing held back, nothing kept.
// Server-sent events, long polls, uploads, and WebSocket or another upgrade that is allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/task.hpp"
#include "core/policy.hpp"
#include "core/problem.hpp"
#include "gateway/connection/client_io.hpp"
#include "gateway/connection/cors.hpp"
#include "gateway/exchange/conditional.hpp"
#include "gateway/exchange/resource_write.hpp"
#include "gateway/metrics.hpp"
#include "gateway/upstream/http_backend.hpp"
#include "http/upstream.hpp"

namespace once::gateway {

class Worker;

// Looks on while a request passes by, and never holds it up.
class PassObserver {
 public:
  virtual void body_part(std::string_view data) = 0;
  virtual void body_ended() = 0;
  virtual void answered(const http::ResponseHead& head) = 0;  // not by an interim response

 protected:
  ~PassObserver() = default;
};

struct PassedRequest {
  HttpBackend& backend;
  Worker& worker;
  const Timeouts& timeouts;
  std::string_view request_id;
  const Wording& wording;    // of the route
  Duration safe_idle_max;    // how long a connection may have rested for a request that may be sent again …
  Duration unsafe_idle_max;  // … and for one that may not
  const std::vector<std::string>& upgrades;  // protocols that a client may switch to
  bool has_key = false;                      // honoured or not: it is never sent again
  bool key_ignored = false;                  // it has a key that is not honoured: the answer says so
  bool closing = false;                      // the gateway is draining: the connection ends with this response
  std::string_view strip_prefix = {};
  const Origin* origin = nullptr;
  const Tagging* tagging = nullptr;  // the response may be given an ETag
  http::CollectRoom* tag_room = nullptr;
  const CorsGrant* cors = nullptr;  // what it says to scripts of other origins
  PassObserver* observer = nullptr;
  // Begun, and ended by the caller. Once it went out, a client that leaves cancels nothing: how it ended is to be
  // known.
  ResourceWrite* write = nullptr;
  std::string_view body = {};  // of a write: read as a whole and framed by us
  UpstreamUse* use = nullptr;  // until the head of the response; filled in, unless it is null
};

struct PassedResult {
  int status = 0;                      // of what the client got; 0 if it got nothing
  bool keep = false;                   // the client's connection is fit for another request
  bool whole = false;                  // the whole response came, or nothing was sent to the backend
  std::optional<ProblemKind> problem;  // nothing was sent to the client yet: answer with this
  std::string detail;
  std::optional<http::ResponseFault> fault = std::nullopt;  // the backend's response is malformed
};

class PassThrough final : private http::Socket::Watcher {
 public:
  PassThrough(ClientIo& client, Metrics& metrics) : client_(client), metrics_(metrics) {}

  // One at a time; reused so that its scratch space is.

  Task<PassedResult> run(const PassedRequest& request);
  // Gives that space back.
  void release_memory() {
    std::string().swap(head_);
    std::string().swap(added_);
    std::string().swap(upgrade_);
  }

 private:
  enum class Upload : std::uint8_t { none, running, done, refused, late, malformed };
  enum class Sent : std::uint8_t { ok, unreachable, busy, client_gone, not_permitted };

  void peer_moved(http::Socket::Peer what) override;
  void watch_client();

  Task<Sent> send_request();
  Task<http::UpstreamConnectionPtr> connection();
  void observe_whole(std::string_view body);
  Task<void> upload();
  Task<bool> upload_chunk(std::string_view data);
  Task<void> end_upload();

  Task<PassedResult> relay();
  // How the server dealt with the request, unless it was the client who ended it.
  void note_served(http::UpstreamConnection::HeadRead read);
  Task<bool> relay_interim();
  Task<void> ask_for_body();
  PassedResult lost() const;
  PassedResult unanswered(http::UpstreamConnection::HeadRead read) const;
  Task<PassedResult> relay_body();
  Task<std::optional<PassedResult>> hold_for_tag();
  Task<PassedResult> answer_not_modified();
  bool keeps_client(bool known_end) const;
  Task<bool> relay_chunk(std::string_view data, bool last, bool more);
  void write_head(bool interim);
  void append_ignored_key(std::string& head, const http::ResponseHead& from) const;
  bool chunked_to_client() const;
  // What is done when the client takes no more of the response.
  Task<PassedResult> read_rest_alone();

  // Only a request that asks for nothing to be done, and has no key.
  bool is_repeatable() const;
  // Once, and only while the client has seen nothing of an answer.
  bool may_be_repeated() const;
  // On an idle connection that the backend closed just as the request went out.
  bool may_try_fresh(http::UpstreamConnection::HeadRead read) const;
  bool may_try_elsewhere(http::UpstreamConnection::HeadRead read) const;
  // Sends it to the same server on a new connection. False: the server could not be reached.
  Task<bool> send_fresh();
  // Sends it to a second server. False: to none, and what the first one said counts.
  Task<bool> send_elsewhere();
  // What of the client's Upgrade goes on: protocols that are allowed, and only without a body, whose bytes would be
  // read for the request and for the tunnel at once. Otherwise Upgrade is left out and the request is served as
  // HTTP/1.1, as RFC 9110 7.8 allows.
  void choose_upgrade();
  bool upgrades() const { return !upgrade_.empty(); }
  // The backend switched to a protocol that was offered to it.
  bool switched_as_asked() const;
  // An event stream has no end that could be waited for.
  bool goes_on_alone() const { return request_->write != nullptr && !events_; }
  // Of the backend. A write to a resource keeps others waiting.
  Duration longest_silence() const {
    return request_->write != nullptr ? request_->timeouts.response : request_->timeouts.stream_idle;
  }

  ClientIo& client_;
  Metrics& metrics_;
  const PassedRequest* request_ = nullptr;
  http::UpstreamConnectionPtr upstream_;
  std::chrono::nanoseconds began_{};
  UpstreamGroup::Turn turn_;  // the way to it
  bool looking_ = false;      // for a connection
  Upload upload_ = Upload::none;
  std::coroutine_handle<> upload_awaited_;
  bool client_gone_ = false;
  bool events_ = false;  // an event stream: a client that closed its side has left
  bool chunk_out_ = false;
  bool interim_relayed_ = false;          // the client has seen something of an answer
  bool repeatable_ = false;               // is_repeatable()
  bool repeated_ = false;                 // it was sent a second time, and is not sent a third time
  bool body_asked_for_ = false;           // by us: the client was told to go on
  std::optional<std::string_view> held_;  // what of the body was waited for and not yet relayed
  std::string etag_;                      // that the response is given; empty: none
  std::string upgrade_;                   // protocols that are offered to the backend
  std::string head_;                      // for the client
  std::string added_;                     // fields for the backend
};

}  // namespace once::gateway
