// Progress of a claim: pieces that its owner appends while it works, and that other clients read meanwhile. They are
// the chunks of the claim's record (store/store.hpp): durable, guarded by the claim's nonce, and gone when the work has
// succeeded or failed, or another attempt has begun.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.hpp"
#include "base/executor.hpp"
#include "base/task.hpp"
#include "claims/identity.hpp"
#include "claims/requests.hpp"
#include "store/claimant.hpp"
#include "store/lane.hpp"
#include "store/owner_wait.hpp"

namespace once::claims {

// The size that a piece counts in addition to its bytes; stores need about that much for it.
inline constexpr std::size_t piece_overhead = 128;

// A chunk contains its piece and the total that all pieces up to it count, so any gateway can check the limit by
// reading one chunk.
struct StoredPiece {
  std::uint64_t counted = 0;
  std::string_view data;  // JSON
};
OutcomeBytes encode_piece(const StoredPiece& piece);
std::optional<StoredPiece> decode_piece(std::string_view chunk);

enum class Appended : std::uint8_t {
  done,      // now, or by an earlier request
  not_done,  // the claim is lost, or the store failed: see the op
  gap,       // the piece before this one is missing
  too_much,  // over the limit
};

struct ProgressPorts {
  Lanes& store;
  Waiters& waiters;
  Executor& home;
  const Clock& clock;
  Claimant& claimant;
};

class Progress {
 public:
  // `limit` applies to all pieces of one claim together.
  Progress(const ProgressPorts& ports, std::size_t limit) : ports_(ports), limit_(limit) {}

  // Appends the piece and notifies clients that wait in this process.
  Task<Appended> append(ClaimHandle handle, ProgressAsked piece, Op& op);

  // Reads the record and some of its pieces. If another claim than the one in `place` is current, reads that from its
  // first piece on and updates `place`.
  Task<void> read(OperationId id, ProgressPlace& place, Op& seen);
  // Reads until there is a piece, the owner has ended, the limit has passed or the client has left. `seen` is the last
  // read.
  Task<void> wait(OperationId id, Duration limit, Presence& presence, ProgressPlace& place, Op& seen);

 private:
  static Op read_op(const OperationId& id, std::uint32_t from);
  // Whether `seen` is of the claim in `place`. Otherwise changes `place`: read again.
  static bool is_at(const Op& seen, ProgressPlace& place);

  const ProgressPorts ports_;
  const std::size_t limit_;
};

}  // namespace once::claims
