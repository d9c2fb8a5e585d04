// The part of limits.max_body_memory that the current response takes, from the first byte of the backend to the last
// byte that the client reads.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "base/executor.hpp"
#include "base/task.hpp"
#include "gateway/limits/reader_memory.hpp"
#include "gateway/limits/shared_outcomes.hpp"
#include "gateway/limits/usage.hpp"
#include "gateway/metrics.hpp"
#include "http/upstream.hpp"

namespace once::gateway {

// Called when memory runs out. May disconnect another client that sends or reads slowly; memory is free a moment later.
class RoomMaker {
 public:
  virtual void make_room() = 0;        // memory
  virtual void make_own_room() = 0;    // memory, from clients at the address of this request only
  virtual void make_spool_room() = 0;  // disk space

 protected:
  ~RoomMaker() = default;
};

// Memory for a response that may get an ETag. If there is none, the response gets no tag.
class TagRoom final : public http::CollectRoom {
 public:
  explicit TagRoom(Usage& usage) : usage_(usage) {}

  void begin(std::size_t most) { most_ = most; }
  Task<Reserved> take(std::size_t bytes) override;
  void give_back(std::size_t bytes) override { usage_.give_back(HeldFor::tag, bytes); }

 private:
  Usage& usage_;
  std::size_t most_ = 0;
};

// Memory for a response that must be recorded. Its request has been executed, so it may exceed the limit by a quarter,
// and waits a moment; without memory it is recorded without its body.
class ResponseMemory final : public http::CollectRoom {
 public:
  ResponseMemory(Usage& usage, ReaderMemory& readers, SharedOutcomes& outcomes, Executor& home, Metrics& metrics,
                 RoomMaker& room)
      : usage_(usage), readers_(readers), outcomes_(outcomes), home_(home), metrics_(metrics), room_(room) {}

  // Begins a request under this limits.max_body_memory. Its memory is accounted to `caller`, or to its address.
  void begin(std::size_t most, const TenantTag& caller) {
    most_ = most;
    caller_ = caller;
  }
  std::string_view holder() const { return {caller_.data(), caller_.size()}; }
  // The limit for all bodies while a response must be recorded.
  std::size_t most_for_response() const { return most_ + most_ / 4; }

  Task<Reserved> take(std::size_t bytes) override;
  void give_back(std::size_t bytes) override { usage_.give_back(HeldFor::response, bytes); }

  // Memory for reading a recorded response in parts. Waits a moment; nullopt: there is none.
  Task<std::optional<ReaderMemory::Room>> room_to_read(std::size_t bytes);

  // Like SharedOutcomes::share(), but never refused: the request has just been executed.
  OutcomeBytes executed(const OperationId& id, const Nonce& nonce, OutcomeBytes outcome);
  // Null: there is no memory for it.
  OutcomeBytes replay(const OperationId& id, const Nonce& nonce, OutcomeBytes outcome);

 private:
  Usage& usage_;
  ReaderMemory& readers_;
  SharedOutcomes& outcomes_;
  Executor& home_;
  Metrics& metrics_;
  RoomMaker& room_;
  std::size_t most_ = 0;
  TenantTag caller_{};
};

}  // namespace once::gateway
