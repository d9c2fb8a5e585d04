// Sends a request body while the response is read. A backend may answer before it has read everything; if both sides
// only wrote, they would block each other.
//
// response_ended() decides what an early response means; docs/design/0027-large-requests.md says why.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/event.hpp"
#include "base/task.hpp"
#include "gateway/exchange/backend.hpp"
#include "http/upstream.hpp"

namespace once::gateway {

// A body in memory. read() returns the rest from the offset on in one piece.
class MemoryBody final : public BodySource {
 public:
  explicit MemoryBody(std::string_view bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Task<std::optional<std::string_view>> read(std::uint64_t offset) override;

 private:
  std::string_view bytes_;
};

// A connection with the sender of one request's body. As a source it yields the response that arrives meanwhile. If it
// is destroyed before the sender has ended, it closes the connection and frees itself when the sender ends; the keeper
// of the body is notified then.
class BodyUpload final : public http::ResponseSource, public http::Patience {
 public:
  struct Parts {
    http::UpstreamConnectionPtr connection;  // it has sent the head
    BodySource* large_body;                  // null: `body`
    std::string_view body;
    BodyKeeper& keeper;
    Duration limit;  // the longest time that the backend may read nothing
  };
  enum class End : std::uint8_t {
    whole,
    refused,     // the connection was broken or closed
    timed_out,   // the backend read nothing for too long
    unreadable,  // the body cannot be read
    stopped,     // by stop()
  };

  explicit BodyUpload(Parts parts);

  // Call once.
  void start();
  // The final response head has arrived: from now on the response may end before the upload does.
  void answered() { answered_ = true; }
  // Stops the sender; the request stays incomplete.
  Task<void> stop();
  // The response is complete: stops the sender if it is a refusal, else waits for the sender.
  Task<void> response_ended();
  std::optional<End> end() const { return end_; }
  // The backend answered with success, but the upload was cut off: it is unknown what the backend did with half a
  // request.
  bool is_cut_off() const;

  http::UpstreamConnection& connection() { return *connection_; }
  // Call after the sender has ended.
  http::UpstreamConnectionPtr take_connection() { return std::move(connection_); }

  // Reads the response. After its end, waits up to `limit` for the rest of the request to be sent.
  Task<http::BodyChunk> next(Duration limit) override;
  bool is_request_sent() const override { return end_.has_value(); }
  void done() override;

  // The time limit of the response starts when the request was sent.
  bool extend(std::chrono::nanoseconds& deadline) const override;

 private:
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
  Event ended_;  // the sender
  bool answered_ = false;
  bool response_over_ = false;
  bool stopping_ = false;
  bool abandoned_ = false;  // destroyed, only the sender still runs
};

using BodyUploadPtr = std::unique_ptr<BodyUpload, http::EndSource>;

}  // namespace once::gateway
