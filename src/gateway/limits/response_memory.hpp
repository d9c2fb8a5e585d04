// What the response to the request at hand takes of limits.max_body_memory, from the first byte that the backend sends
// to the last that the client reads.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "base/executor.hpp"
#include "base/task.hpp"
#include "gateway/limits/reader_memory.hpp"
#include "gateway/limits/told_outcomes.hpp"
#include "gateway/limits/usage.hpp"
#include "gateway/metrics.hpp"
#include "http/upstream.hpp"

namespace once::gateway {

// Told when there is no room. May end somebody else's request or response whose client sends or reads it too slowly:
// there is room a moment later.
class RoomMaker {
 public:
  virtual void make_room() = 0;        // in memory
  virtual void make_own_room() = 0;    // the same, among those of the address of this request only
  virtual void make_spool_room() = 0;  // on disk

 protected:
  ~RoomMaker() = default;
};

// Room for a response that is given an ETag. Without room it gets none.
class TagRoom final : public http::CollectRoom {
 public:
  explicit TagRoom(Usage& usage) : usage_(usage) {}

  void begin(std::size_t most) { most_ = most; }
  Task<bool> take(std::size_t bytes) override;
  void give_back(std::size_t bytes) override { usage_.give_back(HeldFor::tag, bytes); }

 private:
  Usage& usage_;
  std::size_t most_ = 0;
};

// Room for a response that must be recorded. Its request has been executed, so it may take a quarter more than
// everything else, and waits a moment for room; then it is recorded without its body.
class ResponseMemory final : public http::CollectRoom {
 public:
  ResponseMemory(Usage& usage, ReaderMemory& readers, ToldOutcomes& told, Executor& home, Metrics& metrics,
                 RoomMaker& room)
      : usage_(usage), readers_(readers), told_(told), home_(home), metrics_(metrics), room_(room) {}

  // A request under this limits.max_body_memory. What it is given is held for `caller`, or for its address.
  void begin(std::size_t most, const TenantTag& caller) {
    most_ = most;
    caller_ = caller;
  }
  std::string_view holder() const { return {caller_.data(), caller_.size()}; }
  // What a response that must be recorded may let all bodies take.
  std::size_t most_for_response() const { return most_ + most_ / 4; }

  Task<bool> take(std::size_t bytes) override;
  void give_back(std::size_t bytes) override { usage_.give_back(HeldFor::response, bytes); }

  // For a recorded response that is read part by part. Waits a moment; nothing: there is no room.
  Task<std::optional<ReaderMemory::Room>> room_to_read(std::size_t bytes);

  // As ToldOutcomes::share(). What was executed just now is told in any case.
  OutcomeBytes executed(const OperationId& id, const Nonce& nonce, OutcomeBytes outcome);
  // Null: there is no room for it.
  OutcomeBytes replay(const OperationId& id, const Nonce& nonce, OutcomeBytes outcome);

 private:
  Usage& usage_;
  ReaderMemory& readers_;
  ToldOutcomes& told_;
  Executor& home_;
  Metrics& metrics_;
  RoomMaker& room_;
  std::size_t most_ = 0;
  TenantTag caller_{};
};

}  // namespace once::gateway
