// Responses that this process records as they stream. The owner publishes a chunk when it is durable; any number of
// readers follow, each at its own speed, on the loops of their own connections. Only the last part is held: a reader
// that is further behind reads from the store. Thread-safe.
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
  whole,  // all of it was published, and is recorded
  cut,    // nothing follows, and it is not the whole response
};

// The claim that a stream is recorded under, and the request that it answers.
struct StreamOrigin {
  OperationId id = {};
  Nonce nonce = {};
  Attempt attempt{1};
  Fingerprint fingerprint = {};
};

// What operators see of a stream besides its numbers.
struct StreamLabels {
  std::string tenant = {};
  std::string route = {};
  Time since = {};  // by the clock of this process
};

struct StreamInfo {
  OperationId id;
  Attempt attempt{1};
  StreamLabels labels;
  std::uint64_t bytes = 0;  // of the body, so far
  std::size_t readers = 0;
};

// Chunks have the numbers that they have in the store: the head is number 0.
class LiveStream {
 public:
  // Of the body, so much is held. A body that is no longer is recorded as one outcome.
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
  // Of the request that it answers.
  const Fingerprint& fingerprint() const { return fingerprint_; }
  // Of the newest claim: another one may have been handed to its execution.
  Nonce nonce() const;

  // Somebody has ended the record. The owner finds that out when it appends, or soon if its backend is silent.
  void ask_owner_to_look() { owner_should_look_.store(true, std::memory_order_relaxed); }

  // A caller or an operator has recorded that it ends here. Its readers are cut off, and its owner ends the request.
  void stop();
  bool is_stopped() const { return stopped_.load(std::memory_order_relaxed); }

  // By the owner.
  bool should_look() { return owner_should_look_.exchange(false, std::memory_order_relaxed); }
  void hand_over(const Nonce& nonce);
  // The encoded response without its body.
  void begin(OutcomeBytes head);
  // The next chunk, which is in the store. Not held if all bodies of the process would take more than `most` bytes.
  void publish(OutcomeBytes chunk, std::size_t most);
  void end(StreamState state);
  // Somebody else has recorded this whole response for the claim. It goes on where the published part ends.
  void end_as_committed(OutcomeBytes response);
  // The response is too large to be recorded: what follows is held only until all readers have it. Those that are
  // further behind than the window, and not the fastest, lose it.
  void begin_relay(std::size_t relay_window);
  void relay(OutcomeBytes chunk);
  // While it is relayed: whether the fastest reader lacks at least so many of the bytes that are held. If so, the
  // reader that changes this is told (Place::advance).
  bool fastest_is_behind(std::size_t bytes);
  // Whether even the fastest reader still reads from the store.
  bool all_read_store() const;
  // What is held, from chunk `first` on. 0: all of it, with the head.
  struct HeldChunks {
    std::uint32_t first = 0;
    std::vector<OutcomeBytes> chunks = {};
  };
  HeldChunks held() const;
  // The first chunk. Null: a reader that comes now would not find all of it.
  OutcomeBytes head() const;

  struct Look {
    enum class Found : std::uint8_t {
      chunk,
      in_store,  // it is not held any more
      nothing,   // there is none yet, or the stream has ended: see `state`
      gone,      // neither held nor recorded
    };
    Found found = Found::nothing;
    OutcomeBytes chunk = nullptr;
    StreamState state = StreamState::open;
    OutcomeBytes committed = nullptr;  // see end_as_committed()
  };

  // A reader's place, from the first chunk of the body on. Known to the stream while it lives, which it keeps alive.
  class Place {
   public:
    explicit Place(std::shared_ptr<LiveStream> stream);
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place();

    LiveStream& stream() const { return *stream_; }
    std::uint32_t chunk() const { return chunk_; }
    Look look() const { return stream_->look(*this); }
    // True: the owner waits for this.
    [[nodiscard]] bool advance(std::size_t chunks = 1);

   private:
    friend class LiveStream;
    std::shared_ptr<LiveStream> stream_;
    std::uint32_t chunk_ = 1;
  };

  std::size_t readers() const;
  // Of the body that are held.
  std::size_t bytes() const;
  StreamInfo info() const;

 private:
  enum class Counted : std::uint8_t { no, yes };  // in the usage of the process

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
  std::deque<Held> chunks_;  // of the body
  std::uint32_t first_ = 1;  // the number of the first that is held
  std::size_t held_bytes_ = 0;
  std::uint64_t all_bytes_ = 0;                // published or relayed
  std::optional<std::uint32_t> relayed_from_;  // the first chunk that is not in the store
  std::size_t relay_window_ = 0;
  std::optional<std::size_t> owner_waits_;  // until the fastest reader lacks less
  StreamState state_ = StreamState::open;
  OutcomeBytes committed_;
  std::vector<Place*> places_;
};

// By operation.
class LiveStreams {
 public:
  explicit LiveStreams(Usage& usage) : usage_(usage) {}
  LiveStreams(const LiveStreams&) = delete;
  LiveStreams& operator=(const LiveStreams&) = delete;

  // A stream that nobody finds before it is listed.
  std::shared_ptr<LiveStream> make(const StreamOrigin& origin, StreamLabels labels = {}) {
    return std::make_shared<LiveStream>(origin, usage_, std::move(labels));
  }
  void list(const std::shared_ptr<LiveStream>& stream);
  void remove(const LiveStream& stream);
  std::shared_ptr<LiveStream> find(const OperationId& id);
  // What it has recorded stands, and nothing follows: its readers are cut off.
  void stop(const OperationId& id);

  // Readers that wait for the next chunk.
  Waiters& readers() { return readers_; }

  struct Counts {
    std::size_t streams = 0;
    std::size_t readers = 0;
    std::size_t bytes = 0;  // held of their bodies
  };
  Counts counts() const;
  // All that are listed, the oldest first.
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
