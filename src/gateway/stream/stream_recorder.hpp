// Records a response while it streams: reads the backend, appends the bytes to the claim, and publishes each chunk once
// it is durable. While one append is in flight the next chunk gathers. Neither slow readers nor a disconnected client
// delay it.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/event.hpp"
#include "base/executor.hpp"
#include "base/sha256.hpp"
#include "base/task.hpp"
#include "gateway/exchange/backend.hpp"
#include "gateway/metrics.hpp"
#include "gateway/stream/live_stream.hpp"
#include "http/upstream.hpp"
#include "store/claimant.hpp"
#include "store/executions.hpp"
#include "store/waiters.hpp"

namespace once::gateway {

enum class StreamEnd : std::uint8_t {
  whole,       // complete, stored and published
  oversize,    // too large to record: a part is in the store, and the rest is to be relayed
  broken,      // the backend broke off
  timed_out,   // the backend was silent for too long
  abandoned,   // no reader was left
  lost,        // the claim was lost
  unrecorded,  // the store failed
};

struct StreamRecorderPorts {
  Claimant& claimant;
  Executor& home;
  const Clock& clock;
  Metrics& metrics;
  const SendPermit* lease;  // whether the claim is still valid; null: assumed so
  std::size_t most_memory;  // limit for all bodies of the process; over it, chunks are not kept in memory
  Waiters& readers;
};

struct StreamLimits {
  std::size_t max_stream;  // of the body that is recorded
  Duration silence;        // the longest silence of the backend
  Duration abandon_after;  // without a reader in this process; zero: never
  Duration lease;          // how long an append is retried
};

// Whether the store has recorded what was appended.
enum class Recorded : std::uint8_t { no, yes };

class StreamRecorder {
 public:
  // `claim` is the op of the claim; its nonce guards every append. All arguments outlive this.
  StreamRecorder(const StreamRecorderPorts& ports, const Op& claim, Executions::Entry& work, LiveStream& live,
                 const StreamLimits& limits);
  StreamRecorder(const StreamRecorder&) = delete;
  StreamRecorder& operator=(const StreamRecorder&) = delete;

  // Appends the head as the first chunk.
  Task<Recorded> begin(OutcomeBytes head);
  // Instead of begin() and record(), for a response of which nothing is recorded.
  void begin_unrecorded(OutcomeBytes head, std::string_view body);
  // Records the body to its end. `begun` is the part of it that was already read from the source.
  Task<StreamEnd> record(http::ResponseSource& source, std::string_view begun);
  // After `oversize`: relays the rest unrecorded. Returns `oversize` if it arrived whole.
  Task<StreamEnd> relay(http::ResponseSource& source);

  // The nonce of the newest claim: a newer one may have been handed to this execution.
  const Nonce& nonce() const { return append_.nonce; }
  // The result of the last append.
  OpStatus status() const { return append_.status; }
  std::uint64_t body_bytes() const { return taken_; }
  // Whether this body begins with the bytes that readers were already sent.
  bool continues_in(std::string_view body) const;

 private:
  // Reading pauses while this many bytes wait for the store.
  static constexpr std::size_t most_gathered = LiveStream::window;
  // Bytes that the source has already read are taken in pieces of this size.
  static constexpr std::size_t largest_piece = std::size_t{16} << 10U;
  // How far the fastest reader may be behind a relayed stream.
  static constexpr std::size_t relay_window = std::size_t{1} << 20U;

  Task<void> append_gathered();
  Task<Recorded> append(OutcomeBytes chunk);
  Task<StreamEnd> leave_record();
  Task<NewerClaim> take_newer_claim();
  Task<Recorded> append_held_again();
  // Publishes a chunk that is durable.
  void publish(const OutcomeBytes& chunk);
  void note_published(std::string_view bytes);
  Task<void> wait_for_readers();
  bool is_abandoned();
  Task<http::BodyChunk> next(http::ResponseSource& source);
  Task<void> look_for_end();

  const StreamRecorderPorts ports_;
  Executions::Entry& work_;
  LiveStream& live_;
  const StreamLimits limits_;
  Op append_;
  std::string gathered_;
  std::uint64_t taken_ = 0;                // bytes taken from the source
  std::uint64_t published_ = 0;            // bytes published
  Sha256 digest_;                          // of the published bytes
  Event appended_{Event::Initially::set};  // every gathered byte is in the store, or could not be stored
  bool failed_ = false;
  bool oversize_ = false;
  std::optional<http::BodyChunk::Kind> source_ended_;
  std::optional<Duration> unread_since_;
};

}  // namespace once::gateway
