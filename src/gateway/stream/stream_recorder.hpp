// Records a response while it streams: reads the backend, appends what came to the claim, and publishes each chunk when
// it is durable. While one append is on its way the next chunk gathers. Readers never hold this up, and neither does a
// client that leaves.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
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
  whole,       // all of it is in the store and published
  oversize,    // larger than may be recorded: only a part is in the store; the rest is still to be relayed
  broken,      // by the backend
  timed_out,   // the backend was silent for too long
  abandoned,   // nobody reads it any more
  lost,        // the claim is another one's
  unrecorded,  // the store did not take it
};

struct StreamRecorderPorts {
  Claimant& claimant;
  Executor& home;
  const Clock& clock;
  Metrics& metrics;
  const SendPermit* lease;  // whether the claim stands, as far as is known; null: it does
  std::size_t most_memory;  // that all bodies of the process may take; without room nothing of the stream is held
  Waiters& readers;
};

struct StreamLimits {
  std::size_t max_stream;  // bytes of the body that are recorded
  Duration silence;        // of the backend
  Duration abandon_after;  // without a reader in this process; zero: never
  Duration lease;          // for how long an append is tried
};

class StreamRecorder {
 public:
  // `claim`: the op of the claim, whose nonce guards every append. All of them outlive this.
  StreamRecorder(const StreamRecorderPorts& ports, const Op& claim, Executions::Entry& work, LiveStream& live,
                 const StreamLimits& limits);
  StreamRecorder(const StreamRecorder&) = delete;
  StreamRecorder& operator=(const StreamRecorder&) = delete;

  // The first chunk. False: it was not recorded.
  Task<bool> begin(OutcomeBytes head);
  // In place of begin() and record(): nothing is recorded of it.
  void begin_unrecorded(OutcomeBytes head, std::string_view body);
  // The body, to its end. `begun`: its first part, which the source has given already.
  Task<StreamEnd> record(http::ResponseSource& source, std::string_view begun);
  // After oversize: sends on what follows, without recording it. `oversize`: it came whole.
  Task<StreamEnd> relay(http::ResponseSource& source);

  // Of the newest claim: another one may have been handed to this execution.
  const Nonce& nonce() const { return append_.nonce; }
  // What became of the last append.
  OpStatus status() const { return append_.status; }
  std::uint64_t body_bytes() const { return taken_; }
  // Whether readers that have all that was published can go on with this body.
  bool continues_in(std::string_view body) const;

 private:
  // No more is read while so much waits for the store.
  static constexpr std::size_t most_gathered = LiveStream::window;
  // Of what the source has given already, so much is taken at a time.
  static constexpr std::size_t largest_piece = std::size_t{16} << 10U;
  // How far the fastest reader may be behind a stream that is not recorded.
  static constexpr std::size_t relay_window = std::size_t{1} << 20U;

  Task<void> append_gathered();
  Task<bool> append(OutcomeBytes chunk);
  Task<StreamEnd> leave_record();
  Task<bool> take_newer_claim();
  Task<bool> append_held_again();
  // When it is durable.
  void publish(const OutcomeBytes& chunk);
  void note_published(std::string_view bytes);
  Task<void> wait_for_readers();
  bool is_abandoned();
  Task<http::BodyChunk> next(http::ResponseSource& source);
  Task<void> look_for_end();

  struct AppenderIdle;

  const StreamRecorderPorts ports_;
  Executions::Entry& work_;
  LiveStream& live_;
  const StreamLimits limits_;
  Op append_;
  std::string gathered_;
  std::uint64_t taken_ = 0;      // bytes of the body
  std::uint64_t published_ = 0;  // of those
  Sha256 digest_;                // of what was published
  bool appending_ = false;
  bool failed_ = false;
  bool oversize_ = false;
  std::optional<http::BodyChunk::Kind> source_ended_;
  std::optional<Duration> nobody_since_;
  std::coroutine_handle<> awaits_appender_;
};

}  // namespace once::gateway
