// The reader of a response whose body is in chunks: the body, as the connection's writer takes it. It follows a stream
// of this process from memory while its next chunk is held, and reads from the store otherwise: what it is too far
// behind for, streams of other gateways, and responses that were recorded before. It never holds up the owner.
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

// What readers need beside their stream.
struct StreamReaderPorts {
  Lanes& store;
  Waiters& waiters;  // for the end of an operation, and for its chunks if the store notifies of them
  Waiters& readers;  // of LiveStreams
  Executor& home;
  Presence* presence = nullptr;      // of the client; null: taken to be there
  ResponseMemory* memory = nullptr;  // null: there is always enough
};

struct StreamToRead {
  OperationId id;
  OutcomeBytes head;                           // as its client was told
  std::shared_ptr<LiveStream> live = nullptr;  // null: read from the store alone
  Nonce nonce = {};           // without `live`: of the claim whose chunks are read. If another one has taken its place,
                              // the stream is cut off
  std::uint64_t skip = 0;     // how many bytes of the body the client has already
  std::uint64_t length = 0;   // of the whole body, if the client was told: its last byte is the end
  bool told_unknown = false;  // its client was told so with the head: it gets no clean end, even if the record gets one
};

http::ResponseSourcePtr read_stream(const StreamReaderPorts& ports, const StreamToRead& stream);

// What is read from the store at once; more only if a single chunk is larger.
inline constexpr std::size_t bytes_per_read = std::size_t{64} << 10U;

// The first part of a recorded response, and the room for the rest.
struct RecordedBody {
  std::vector<OutcomeBytes> chunks;
  ReaderMemory::Room room;
};

// A response that is recorded whole, or was stopped, with its body in chunks.
http::ResponseSourcePtr read_recorded(const StreamReaderPorts& ports, const StreamToRead& stream, RecordedBody begun);

// Whether a client that was told the one head may be told the rest of the other response. Both as they are encoded.
bool same_head(const OutcomeBytes& one, const OutcomeBytes& other);

}  // namespace once::gateway
