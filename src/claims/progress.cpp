#include "claims/progress.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "store/claim_steps.hpp"

namespace once::claims {

namespace {

// The limit of one response; a client continues with another request.
constexpr std::size_t progress_per_read = std::size_t{256} << 10U;

}  // namespace

OutcomeBytes encode_piece(const StoredPiece& piece) {
  return std::make_shared<const std::string>(fmt::format("{}\n{}", piece.counted, piece.data));
}

std::optional<StoredPiece> decode_piece(std::string_view chunk) {
  const std::size_t end = chunk.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const auto counted = parse_number(chunk.substr(0, end));
  if (!counted) return std::nullopt;
  return StoredPiece{.counted = *counted, .data = chunk.substr(end + 1)};
}

Op Progress::read_op(const OperationId& id, std::uint32_t from) {
  Op op;
  op.verb = Verb::read;
  op.id = id;
  op.chunk = from;
  op.chunk_bytes = progress_per_read;
  return op;
}

Task<Appended> Progress::append(ClaimHandle handle, ProgressAsked piece, Op& op) {
  std::uint64_t before = 0;
  if (piece.number > 0) {
    op = read_op(handle.id, piece.number - 1);
    op.chunk_bytes = 0;  // read only that one
    co_await ports_.claimant.ask(op);
    if (op.status == OpStatus::done && standing_of(op, handle.nonce) != Standing::started) op.status = OpStatus::lost;
    if (op.status != OpStatus::done) co_return Appended::not_done;
    const auto last = op.chunks.empty() ? std::nullopt : decode_piece(*op.chunks.front());
    if (!last) co_return Appended::gap;
    before = last->counted;
  }
  const std::uint64_t counted = before + piece.data.size() + piece_overhead;
  if (counted > limit_) co_return Appended::too_much;
  op = Op();
  op.verb = Verb::append;
  op.id = handle.id;
  op.nonce = handle.nonce;
  op.chunk = piece.number;
  op.outcome = encode_piece({.counted = counted, .data = piece.data});
  co_await ports_.claimant.ask(op);
  if (op.status != OpStatus::done) co_return Appended::not_done;
  ports_.waiters.notify(op.id);
  co_return Appended::done;
}

bool Progress::is_at(const Op& seen, ProgressPlace& place) {
  if (seen.status != OpStatus::done || !seen.record) return true;
  const Fence fence = seen.record->fence;
  const bool same = !place.fence || *place.fence == fence;
  place.fence = fence;
  return same || std::exchange(place.from, 0) == 0;
}

Task<void> Progress::read(OperationId id, ProgressPlace& place, Op& seen) {
  do {
    seen = read_op(id, place.from);
    co_await ports_.claimant.ask(seen);
  } while (!is_at(seen, place));
}

Task<void> Progress::wait(OperationId id, Duration limit, Presence& presence, ProgressPlace& place, Op& seen) {
  Waiters::Ticket ticket(ports_.waiters, id, ports_.home);
  const Departure departure(&presence, ticket);
  OwnerWaitSteps steps(ports_.store.store().traits().shared, limit);
  while (!departure.left()) {
    const Duration began = ports_.clock.running();
    seen = read_op(id, place.from);
    seen.waits = Waits::yes;
    co_await ports_.store.run(seen, ports_.home);
    if (!is_at(seen, place)) continue;
    if (!seen.chunks.empty() || ports_.store.store().failed_for_good()) co_return;
    const std::optional<Duration> pause = steps.pause_after(seen);
    if (!pause) co_return;
    co_await ticket.wait(*pause);
    steps.paused(ports_.clock.running() - began);
  }
}

}  // namespace once::claims
