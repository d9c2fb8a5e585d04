// Responses that this process records as they stream. The owner publishes each chunk once it is durable; any number of
// readers follow at their own speed, on the loops of their connections. Only the last part stays in memory: a slower
// reader reads from the store. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "core/record.hpp"
#include "gateway/limits/usage.hpp"
#include "store/waiters.hpp"

namespace once::gateway {

enum class StreamState : std::uint8_t {
  open,
  whole,  // complete: everything was published and is recorded
  cut,    // ended early: the response is not complete
};

// The claim that a stream is recorded under, and the request that it answers.
struct StreamOrigin {
  OperationId id = {};
  Nonce nonce = {};
  Attempt attempt{1};
  Fingerprint fingerprint = {};
};

// Labels of a stream for operators.
struct StreamLabels {
  std::string tenant = {};
  std::string route = {};
  Time since = {};  // by this process's clock
};

struct StreamInfo {
  OperationId id;
  Attempt attempt{1};
  StreamLabels labels;
  std::uint64_t bytes = 0;  // of the body so far
  std::size_t readers = 0;
};

// Chunk numbers are those in the store; number 0 is the head.
class LiveStream {
 public:
  // Bytes of the body that are kept in memory. A body no longer than this is recorded as one outcome.
  static constexpr std::size_t window = std::size_t{64} << 10U;

  // `usage` outlives this.
  LiveStream(const StreamOrigin& origin, Usage& usage, StreamLabels labels = {})
      : id_(origin.id),
        attempt_(origin.attempt),
        fingerprint_(origin.fingerprint),
        labels_(std::move(labels)),
        usage_(usage),
        nonce_(origin.nonce) {}
  LiveStream(const LiveStream&) = delete;
  LiveStream& operator=(const LiveStream&) = delete;
  ~LiveStream();

  const OperationId& id() const { return id_; }
  Attempt attempt() const { return attempt_; }
  // Of the request whose response this is.
  const Fingerprint& fingerprint() const { return fingerprint_; }
  // The nonce of the newest claim: a newer one may have been handed to the execution.
  Nonce nonce() const;

  // The record was ended by another component. The owner finds out at its next append, or soon if its backend is
  // silent.
  void ask_owner_to_look() { owner_should_look_.store(true, std::memory_order_relaxed); }

  // A caller or an operator has stopped the stream in the store: cuts off its readers, and its owner ends the request.
  void stop();
  bool is_stopped() const { return stopped_.load(std::memory_order_relaxed); }

  // The functions down to all_read_store() are called by the owner.
  bool should_look() { return owner_should_look_.exchange(false, std::memory_order_relaxed); }
  void hand_over(const Nonce& nonce);
  // The encoded response without its body.
  void begin(OutcomeBytes head);
  // Adds a chunk that is durable. It is not kept in memory if all bodies of the process would then exceed `most` bytes.
  void publish(OutcomeBytes chunk, std::size_t most);
  void end(StreamState state);
  // The whole response was recorded for the claim by another writer. Readers continue in it after the published part.
  void end_as_committed(OutcomeBytes response);
  // The response is too large to record: the rest stays in memory only until all readers have it. Readers that fall
  // behind by more than the window, except the fastest one, lose it.
  void begin_relay(std::size_t relay_window);
  void relay(OutcomeBytes chunk);
  // While relaying: whether the fastest reader has at least `bytes` unread bytes in memory. If so, advance()
  // returns `wakes` once it has fewer.
  bool fastest_is_behind(std::size_t bytes);
  // Whether every reader reads from the store.
  bool all_read_store() const;
  // The chunks in memory, from number `first` on. 0: all of them, with the head.
  struct HeldChunks {
    std::uint32_t first = 0;
    std::vector<OutcomeBytes> chunks = {};
  };
  HeldChunks held() const;
  // The head. Null while relaying, because a reader that starts now would miss the beginning.
  OutcomeBytes head() const;

  struct Look {
    enum class Found : std::uint8_t {
      chunk,
      in_store,  // no longer in memory
      nothing,   // not there yet, or the stream has ended: see `state`
      gone,      // neither in memory nor recorded
    };
    Found found = Found::nothing;
    OutcomeBytes chunk = nullptr;
    StreamState state = StreamState::open;
    OutcomeBytes committed = nullptr;  // see end_as_committed()
  };

  // The position of one reader, from the first chunk of the body on. It is registered with the stream while it lives,
  // and keeps the stream alive.
  class Place {
   public:
    explicit Place(std::shared_ptr<LiveStream> stream);
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place();

    LiveStream& stream() const { return *stream_; }
    std::uint32_t chunk() const { return chunk_; }
    Look look() const { return stream_->look(*this); }
    enum class Owner : std::uint8_t { runs, wakes };
    // Moves to the next chunks. `wakes`: notify the owner, which waits for this reader.
    [[nodiscard]] Owner advance(std::size_t chunks = 1);

   private:
    friend class LiveStream;
    std::shared_ptr<LiveStream> stream_;
    std::uint32_t chunk_ = 1;
  };

  std::size_t readers() const;
  // Bytes of the body in memory.
  std::size_t bytes() const;
  StreamInfo info() const;

 private:
  enum class Counted : std::uint8_t { no, yes };  // whether it is counted in the process's usage

  Look look(const Place& place) const;
  std::uint32_t next() const { return first_ + static_cast<std::uint32_t>(chunks_.size()); }
  std::uint32_t fastest() const;
  std::size_t lacks() const;
  void hold(OutcomeBytes chunk, Counted counted);
  void trim();
  void forget_first();

  const OperationId id_;
  const Attempt attempt_;
  const Fingerprint fingerprint_;
  const StreamLabels labels_;
  Usage& usage_;

  std::atomic<bool> owner_should_look_ = false;
  std::atomic<bool> stopped_ = false;
  mutable std::mutex mutex_;
  Nonce nonce_;
  struct Held {
    OutcomeBytes chunk;
    Counted counted;
  };
  OutcomeBytes head_;
  std::deque<Held> chunks_;  // those of the body in memory
  std::uint32_t first_ = 1;  // the number of the first one in memory
  std::size_t held_bytes_ = 0;
  std::uint64_t all_bytes_ = 0;                // bytes published or relayed
  std::optional<std::uint32_t> relayed_from_;  // the first chunk that is not in the store
  std::size_t relay_window_ = 0;
  std::optional<std::size_t> owner_waits_;  // the owner waits until the fastest reader has fewer unread bytes
  StreamState state_ = StreamState::open;
  OutcomeBytes committed_;
  std::vector<Place*> places_;
};

// The live streams of this process, by operation.
class LiveStreams {
 public:
  explicit LiveStreams(Usage& usage) : usage_(usage) {}
  LiveStreams(const LiveStreams&) = delete;
  LiveStreams& operator=(const LiveStreams&) = delete;

  // Makes a stream that is not listed yet, so lookups do not find it.
  std::shared_ptr<LiveStream> make(const StreamOrigin& origin, StreamLabels labels = {}) {
    return std::make_shared<LiveStream>(origin, usage_, std::move(labels));
  }
  void list(const std::shared_ptr<LiveStream>& stream);
  void remove(const LiveStream& stream);
  std::shared_ptr<LiveStream> find(const OperationId& id);
  // Cuts off the readers of this stream: what is recorded stays, nothing follows.
  void stop(const OperationId& id);

  // Readers that wait for the next chunk.
  Waiters& readers() { return readers_; }

  struct Counts {
    std::size_t streams = 0;
    std::size_t readers = 0;
    std::size_t bytes = 0;  // of their bodies, in memory
  };
  Counts counts() const;
  // All listed streams, the oldest first.
  std::vector<StreamInfo> snapshot() const;

 private:
  struct Shard {
    mutable std::mutex mutex;
    std::unordered_map<OperationId, std::shared_ptr<LiveStream>> streams;
  };
  Shard& shard_of(const OperationId& id) { return shards_[id.bytes[20] % shards_.size()]; }

  Usage& usage_;
  Waiters readers_;
  std::array<Shard, 16> shards_;
};

}  // namespace once::gateway
