// Streams requests that Once does not protect, in both directions as the bytes arrive: server-sent events, long polls,
// uploads, and WebSocket or other upgrades that are allowed. Only a response that may get an ETag is held back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/event.hpp"
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

// Observes a request that passes through, without ever delaying it.
class PassObserver {
 public:
  virtual void body_part(std::string_view data) = 0;
  virtual void body_ended() = 0;
  virtual void answered(const http::ResponseHead& head) = 0;  // not called for interim responses

 protected:
  ~PassObserver() = default;
};

struct PassedRequest {
  HttpBackend& backend;
  Worker& worker;
  const Timeouts& timeouts;
  std::string_view request_id;
  const Wording& wording;                    // of the route
  Duration safe_idle_max;                    // the longest idle time of a connection for a request that may be resent …
  Duration unsafe_idle_max;                  // … and for one that may not
  const std::vector<std::string>& upgrades;  // protocols that a client may upgrade to
  bool has_key = false;                      // honoured or not: such a request is never resent
  bool key_ignored = false;                  // it has a key that is not honoured, and the response says so
  bool closing = false;                      // the gateway is draining: close the connection after this response
  std::string_view strip_prefix = {};
  const Origin* origin = nullptr;
  const Tagging* tagging = nullptr;  // set if the response may get an ETag
  http::CollectRoom* tag_room = nullptr;
  const CorsGrant* cors = nullptr;  // the CORS fields to add
  PassObserver* observer = nullptr;
  // The resource write that this request is; null: none. The caller begins and ends it. Once the write was sent, a
  // client that leaves does not cancel it, because its outcome must be known.
  ResourceWrite* write = nullptr;
  std::string_view body = {};  // the body of a write, read completely and framed by Once
  UpstreamUse* use = nullptr;  // filled in up to the head of the response, unless it is null
};

struct PassedResult {
  int status = 0;                      // sent to the client; 0: nothing was sent
  bool keep = false;                   // the client's connection can be reused
  bool whole = false;                  // the whole response arrived, or nothing was sent to the backend
  std::optional<ProblemKind> problem;  // set if nothing was sent to the client yet: answer with this
  std::string detail;
  std::optional<http::ResponseFault> fault = std::nullopt;  // set if the backend's response is malformed
};

class PassThrough final : private http::Socket::Watcher {
 public:
  PassThrough(ClientIo& client, Metrics& metrics) : client_(client), metrics_(metrics) {}

  // One request at a time; reused to keep its buffers.

  Task<PassedResult> run(const PassedRequest& request);
  // Frees the buffers.
  void release_memory() {
    std::string().swap(head_);
    added_.release_memory();
    fields_.release_memory();
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
  Task<http::Io> upload_chunk(std::string_view data);
  Task<void> end_upload();

  Task<PassedResult> relay();
  // Reports how the server handled the request, unless the client ended it.
  void note_served(http::UpstreamConnection::HeadRead read);
  Task<http::Io> relay_interim();
  Task<void> ask_for_body();
  PassedResult lost() const;
  PassedResult unanswered(http::UpstreamConnection::HeadRead read) const;
  Task<PassedResult> relay_body();
  Task<std::optional<PassedResult>> hold_for_tag();
  Task<PassedResult> answer_not_modified();
  bool keeps_client(bool known_end) const;
  Task<http::Io> relay_chunk(std::string_view data, bool last, bool more);
  void write_interim_head();
  void write_head(const http::HeadToWrite& head);
  void collect_fields();
  void add_own_fields(bool dated);
  http::Framing client_framing() const;
  http::ConnectionField connection_field(bool keep) const;
  bool chunked_to_client() const;
  // Reads the rest of the response after the client stopped reading.
  Task<PassedResult> read_rest_alone();

  // Whether the request may be resent: a safe method and no key.
  bool is_repeatable() const;
  // Whether it may be resent now: only once, and while the client has seen nothing of a response.
  bool may_be_repeated() const;
  // Whether to try a new connection: the backend closed the idle one just as the request was sent.
  bool may_try_fresh(http::UpstreamConnection::HeadRead read) const;
  bool may_try_elsewhere(http::UpstreamConnection::HeadRead read) const;
  // Resends to the same server on a new connection.
  Task<Sent> send_fresh();
  // Resends to a second server. Unless `ok`, the first response counts.
  Task<Sent> send_elsewhere();
  // Decides which protocols of the client's Upgrade are forwarded: those that are allowed, and only without a request
  // body, whose bytes could be read as part of the tunnel. Otherwise Upgrade is dropped and the request is served as
  // HTTP/1.1, as RFC 9110 7.8 allows.
  void choose_upgrade();
  bool upgrades() const { return !upgrade_.empty(); }
  // Whether the backend switched to an offered protocol.
  bool switched_as_asked() const;
  // Whether to read on without the client. An event stream has no end to wait for.
  bool continues_without_client() const { return request_->write != nullptr && !events_; }
  // The longest silence of the backend. A write to a resource keeps others waiting.
  Duration longest_silence() const {
    return request_->write != nullptr ? request_->timeouts.response : request_->timeouts.stream_idle;
  }

  ClientIo& client_;
  Metrics& metrics_;
  const PassedRequest* request_ = nullptr;
  http::UpstreamConnectionPtr upstream_;
  std::chrono::nanoseconds began_{};
  UpstreamGroup::Turn turn_;  // its connection to the backend
  bool looking_ = false;      // waiting for a connection
  Upload upload_ = Upload::none;
  Event upload_ended_{Event::Initially::set};
  bool client_gone_ = false;
  bool events_ = false;  // an event stream: a half-closed client has left
  bool chunk_out_ = false;
  bool interim_relayed_ = false;          // the client has seen part of a response
  bool repeatable_ = false;               // is_repeatable()
  bool repeated_ = false;                 // it was resent, and is not resent again
  bool body_asked_for_ = false;           // Once sent the client 100 Continue
  std::optional<std::string_view> held_;  // body bytes that were read and not yet relayed
  std::string etag_;                      // the ETag to add; empty: none
  std::string upgrade_;                   // protocols offered to the backend
  Fields fields_;                         // for the client
  std::string head_;                      // for the client, as written
  Fields added_;                          // for the backend
};

}  // namespace once::gateway
