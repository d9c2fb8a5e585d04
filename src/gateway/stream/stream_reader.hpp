// Reads a response whose body is in chunks, for the connection that writes it to a client. Follows a live stream of
// this process in memory, and reads from the store what is no longer in memory, streams of other gateways, and recorded
// responses. It never blocks the owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/executor.hpp"
#include "gateway/limits/response_memory.hpp"
#include "gateway/stream/live_stream.hpp"
#include "http/upstream.hpp"
#include "store/lane.hpp"
#include "store/owner_wait.hpp"
#include "store/waiters.hpp"

namespace once::gateway {

// The dependencies of readers.
struct StreamReaderPorts {
  Lanes& store;
  Waiters& waiters;  // wakes at the end of an operation, and at its chunks if the store notifies of them
  Waiters& readers;  // of LiveStreams
  Executor& home;
  Presence* presence = nullptr;      // of the client; null: assumed present
  ResponseMemory* memory = nullptr;  // null: unlimited
};

struct StreamToRead {
  OperationId id;
  OutcomeBytes head;                           // as it was sent to the client
  std::shared_ptr<LiveStream> live = nullptr;  // null: read from the store alone
  // without `live`: the claim whose chunks are read. If another claim replaces it, the reader is cut off
  Nonce nonce = {};
  std::uint64_t skip = 0;    // bytes of the body that the client already has
  std::uint64_t length = 0;  // the body length that the client was sent, if any: its last byte is the end
  // the head said that the outcome is unknown: the reader gets no clean end, even if the record does
  bool unknown_outcome = false;
};

http::ResponseSourcePtr read_stream(const StreamReaderPorts& ports, const StreamToRead& stream);

// Bytes per read from the store; more only if a single chunk is larger.
inline constexpr std::size_t bytes_per_read = std::size_t{64} << 10U;

// The first part of a recorded response, and the memory reserved for the rest.
struct RecordedBody {
  std::vector<OutcomeBytes> chunks;
  ReaderMemory::Room room;
};

// Reads a response that has ended, complete or stopped, whose body is in chunks.
http::ResponseSourcePtr read_recorded(const StreamReaderPorts& ports, const StreamToRead& stream, RecordedBody begun);

// Whether a client that was sent the head of `one` may continue with the body of `other`. Both are encoded.
bool same_head(const OutcomeBytes& one, const OutcomeBytes& other);

}  // namespace once::gateway
