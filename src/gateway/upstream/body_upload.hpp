// Sends the body of a request while its response is read: a backend may answer before it has read everything, and one
// that answers while it reads would otherwise wait for the gateway, which waits for it.
//
// What an early response means is decided by response_ended(); docs/design/0027-large-requests.md says why.
#pragma once

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/task.hpp"
#include "gateway/exchange/backend.hpp"
#include "http/upstream.hpp"

namespace once::gateway {

// A body in memory as one that is sent in pieces.
class MemoryBody final : public BodySource {
 public:
  explicit MemoryBody(std::string_view bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Task<std::optional<std::string_view>> read(std::uint64_t offset) override;

 private:
  std::string_view bytes_;
};

// One request's connection with its sender. As a source it gives the response that comes meanwhile. If it is destroyed
// before the sender has ended, it closes the connection and stays until the sender is gone; the keeper of the body
// learns when.
class BodyUpload final : public http::ResponseSource, public http::Patience {
 public:
  struct Parts {
    http::UpstreamConnectionPtr connection;  // which has sent the head
    BodySource* large_body;                  // null: `body`
    std::string_view body;
    BodyKeeper& keeper;
    Duration limit;  // for a backend that takes nothing
  };
  enum class End : std::uint8_t {
    whole,
    refused,     // the connection is broken or closed
    timed_out,   // the backend took nothing for too long
    unreadable,  // the body cannot be read
    stopped,     // by us
  };

  explicit BodyUpload(Parts parts);

  // Once.
  void start();
  // The head of the final response is here: from now on, the response may go on without the rest of the upload.
  void answered() { answered_ = true; }
  // Ends the sender. What is sent is half a request.
  Task<void> stop();
  // The response is whole. Stops the sender if it is a refusal, and waits for it otherwise.
  Task<void> response_ended();
  std::optional<End> end() const { return end_; }
  // The backend has answered well, but we have cut off the request: it is unknown what it does with half of it.
  bool is_cut_off() const;

  http::UpstreamConnection& connection() { return *connection_; }
  // When the sender has ended.
  http::UpstreamConnectionPtr take_connection() { return std::move(connection_); }

  // While the response is whole and the request is not, it times out.
  Task<http::BodyChunk> next(Duration limit) override;
  bool is_request_sent() const override { return end_.has_value(); }
  void done() override;

  // The time for a response counts from the end of the request.
  bool extend(std::chrono::nanoseconds& deadline) const override;

 private:
  struct SenderEnd;

  ~BodyUpload() = default;
  Task<void> run();
  Task<End> send_all();
  void finish(End end);
  bool is_refusal() const { return connection_->head().status >= 400; }

  http::UpstreamConnectionPtr connection_;
  MemoryBody in_memory_;
  BodySource& body_;
  BodyKeeper& keeper_;
  Duration limit_;
  std::optional<End> end_;
  std::chrono::nanoseconds ended_at_{};
  std::coroutine_handle<> awaited_;
  bool answered_ = false;
  bool response_over_ = false;
  bool stopping_ = false;
  bool abandoned_ = false;  // destroyed, but for the sender
};

using BodyUploadPtr = std::unique_ptr<BodyUpload, http::EndSource>;

}  // namespace once::gateway
