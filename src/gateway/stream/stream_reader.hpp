// Readers of a response that is recorded as it streams: the body, as the connection's writer takes it. One follows a
// stream of this process; the other reads from the store what a claim has appended, whoever has it, to its end or to
// where it was cut off. Neither holds up the owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/backoff.hpp"
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
  Executor& home;
  Presence* presence = nullptr;      // of the client; null: taken to be there
  ResponseMemory* memory = nullptr;  // for a recorded response; null: there is always enough
};

struct ReadFrom {
  std::uint64_t skip = 0;    // how many bytes of the body the client has already
  std::uint64_t length = 0;  // of the whole body, if its head says so: its last byte is the end
};

http::ResponseSourcePtr read_live(std::shared_ptr<LiveStream> stream, Waiters& readers, const StreamReaderPorts& ports,
                                  const ReadFrom& from);

struct StoredStream {
  OperationId id;
  Nonce nonce;        // of the claim whose chunks are read; if another one has taken its place, the stream is cut off
  OutcomeBytes head;  // its first chunk
};

// `skip`: as above.
http::ResponseSourcePtr read_stored(Lanes& store, Waiters& waiters, const StreamReaderPorts& ports,
                                    const StoredStream& stream, std::uint64_t skip);

}  // namespace once::gateway
