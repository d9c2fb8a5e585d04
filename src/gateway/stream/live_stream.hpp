// Responses that this process records as they stream. The owner publishes a chunk when it is durable; any number of
// readers follow, each at its own speed, on the loops of their own connections. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/bytes.hpp"
#include "core/record.hpp"
#include "gateway/limits/usage.hpp"
#include "store/waiters.hpp"

namespace once::gateway {

enum class StreamState : std::uint8_t {
  open,
  whole,  // all of it was published, and is recorded
  cut,    // nothing follows, and it is not the whole response
};

// Whether a chunk was counted in the usage of the process, which is given back with it.
enum class Counted : std::uint8_t { no, yes };

class LiveStream {
 public:
  // Of the claim that `nonce` names. The first chunk is the encoded response without its body. `usage` outlives this.
  LiveStream(const OperationId& id, const Nonce& nonce, Attempt attempt, Usage& usage)
      : id_(id), nonce_(nonce), attempt_(attempt), usage_(usage) {}
  LiveStream(const LiveStream&) = delete;
  LiveStream& operator=(const LiveStream&) = delete;
  ~LiveStream();

  const OperationId& id() const { return id_; }
  const Nonce& nonce() const { return nonce_; }
  Attempt attempt() const { return attempt_; }

  // By the owner.
  void publish(OutcomeBytes chunk, Counted counted);
  void end(StreamState state);
  // The response is too large to be recorded: from now on chunks are forgotten when all readers have them. Readers that
  // are further behind than this, and not the fastest, lose theirs.
  void forget_read(std::size_t window);
  // After forget_read(): how many bytes the fastest reader is behind. Zero if there is none.
  std::size_t fastest_is_behind() const;
  // All chunks; only before forget_read().
  std::vector<OutcomeBytes> chunks() const;
  // The first chunk. Null: a reader that comes now would not find the beginning.
  OutcomeBytes head() const;

  struct Look {
    OutcomeBytes chunk;  // null: there is none yet
    StreamState state = StreamState::open;
  };
  // What a reader at this chunk finds. One whose chunk was forgotten finds the stream cut.
  class Place;
  Look look(const Place& place) const;

  // A reader's place, from the first chunk of the body on. Known to the stream while it lives, which it keeps alive.
  class Place {
   public:
    explicit Place(std::shared_ptr<LiveStream> stream);
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place();

    LiveStream& stream() const { return *stream_; }
    Look look() const { return stream_->look(*this); }
    void advance();

   private:
    friend class LiveStream;
    std::shared_ptr<LiveStream> stream_;
    std::size_t chunk_ = 1;
  };

  std::size_t readers() const;

 private:
  void trim();
  void forget_first();

  const OperationId id_;
  const Nonce nonce_;
  const Attempt attempt_;
  Usage& usage_;

  mutable std::mutex mutex_;
  struct Held {
    OutcomeBytes chunk;
    Counted counted;
  };
  std::deque<Held> chunks_;
  std::size_t first_ = 0;  // the number of the first that is held
  std::size_t held_bytes_ = 0;
  std::size_t window_ = 0;  // 0: everything is held
  StreamState state_ = StreamState::open;
  std::vector<Place*> places_;
};

// By operation.
class LiveStreams {
 public:
  explicit LiveStreams(Usage& usage) : usage_(usage) {}
  LiveStreams(const LiveStreams&) = delete;
  LiveStreams& operator=(const LiveStreams&) = delete;

  // A stream that nobody finds before it is listed.
  std::shared_ptr<LiveStream> make(const OperationId& id, const Nonce& nonce, Attempt attempt) {
    return std::make_shared<LiveStream>(id, nonce, attempt, usage_);
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
  };
  Counts counts();

 private:
  struct Shard {
    std::mutex mutex;
    std::unordered_map<OperationId, std::shared_ptr<LiveStream>> streams;
  };
  Shard& shard_of(const OperationId& id) { return shards_[id.bytes[20] % shards_.size()]; }

  Usage& usage_;
  Waiters readers_;
  std::array<Shard, 16> shards_;
};

}  // namespace once::gateway
