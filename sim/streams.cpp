#include "sim/streams.hpp"

#include <memory>

#include <fmt/format.h>

namespace once::sim {

namespace {

using namespace std::chrono_literals;

constexpr unsigned first_operation = 1000;  // in the history; clients' operations have lower numbers
constexpr unsigned most_tries = 4;          // of an append that failed

OutcomeBytes bytes(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

}  // namespace

OperationId stream_id(unsigned stream) {
  OperationId id;
  id.bytes.fill(0x5e);
  id.bytes[4] = static_cast<std::uint8_t>(stream);  // so that the shard differs, too
  return id;
}

Streams::Work& Streams::begin(unsigned stream) {
  return works_.emplace_back(Work{.stream = stream, .nonce = ports_.random.nonce()});
}

void Streams::own(unsigned stream) {
  Work& work = begin(stream);
  Draw& draw = ports_.world.draw;
  work.terms = {.on_unknown = draw.one_of({OnUnknown::retry, OnUnknown::takeover}),
                .takeover_after = draw.between(1s, 10s),
                .lease = draw.one_of({Duration(1s), Duration(3s)}),
                .ttl = draw.one_of({Duration(20s), Duration(1h)})};
  work.slow = 2 * work.terms.lease;
  if (ports_.lanes.store().traits().shared == Shared::no) work.terms.lease = Duration::max();
  spawn(run_owner(work));
}

void Streams::follow(unsigned stream) {
  spawn(run_reader(begin(stream)));
}

Task<void> Streams::ask(Work& work, Op op) {
  work.op = std::move(op);
  work.op.id = stream_id(work.stream);
  work.op.nonce = work.nonce;
  work.op.terms = work.terms;
  co_await ports_.lanes.run(work.op, ports_.home);
}

Task<void> Streams::run_owner(Work& work) {
  Draw& draw = ports_.world.draw;
  const Op claim{.verb = Verb::claim};
  co_await ask(work, claim);
  if (work.op.status == OpStatus::failed) {
    const Op release{.verb = Verb::release};
    co_await ask(work, release);
    co_return;
  }
  if (cut_off_ || work.op.status != OpStatus::done || work.op.verdict != Verdict::execute) co_return;
  const Asked asked{.operation = first_operation + work.stream};
  const auto fence = static_cast<std::uint64_t>(work.op.record->fence);
  const unsigned execution = ports_.history.executed(asked, work.nonce, fence);
  const std::uint64_t count = draw.between(1, 8);
  std::uint32_t chunk = 0;
  for (; chunk < count; ++chunk) {
    const Duration pause = draw.one_in(6) ? draw.below(work.slow) : draw.below(Duration(300ms));
    co_await sleep_for(ports_.home, pause);
    const Op renew{.verb = Verb::renew};
    // An owner that does not renew may lose its claim without noticing.
    if (draw.one_in(2)) co_await ask(work, renew);
    const OpStatus status = co_await append(work, chunk);
    if (status == OpStatus::lost) co_return;
    if (status == OpStatus::failed) break;
  }
  if (!cut_off_) co_await end(work, execution, chunk);
}

Task<OpStatus> Streams::append(Work& work, std::uint32_t chunk) {
  const Op op{.verb = Verb::append,
              .outcome = bytes(fmt::format("chunk {} of {}", chunk, short_hex(work.nonce))),
              .chunk = chunk};
  for (unsigned tries = 0; tries < most_tries; ++tries) {
    co_await ask(work, op);
    if (work.op.status != OpStatus::failed) break;
    const Duration pause = ports_.world.draw.between(50ms, 500ms);
    co_await sleep_for(ports_.home, pause);
  }
  co_return work.op.status;
}

Task<void> Streams::end(Work& work, unsigned execution, std::uint32_t chunks) {
  ports_.history.response_received(execution, 200);
  const State state = ports_.world.draw.one_of({State::succeeded, State::failed, State::unknown, State::unknown});
  // A long response stays in chunks, a short one is joined.
  const bool kept = state == State::succeeded && ports_.world.draw.one_in(2);
  const Op finish{.verb = Verb::finish,
                  .final_state = state,
                  .body_kept = kept ? BodyKept::in_chunks : BodyKept::yes,
                  .outcome = bytes((kept ? "head of " : "all of ") + short_hex(work.nonce))};
  const Op release{.verb = Verb::release};
  const unsigned how = static_cast<unsigned>(ports_.world.draw.below(std::size_t{6}));
  const bool may_lapse = work.terms.lease != Duration::max();
  if (how == 0 && may_lapse) co_return;
  const Op& last = how == 1 ? release : finish;
  co_await ask(work, last);
  // Some owners append after the end, as if they did not know that another client ended the response. Nothing may be
  // added to a body that was returned.
  if (kept && how != 1 && !cut_off_ && ports_.world.draw.one_in(3)) co_await append(work, chunks);
}

Task<void> Streams::run_reader(Work& work) {
  Draw& draw = ports_.world.draw;
  for (std::uint64_t reads = draw.between(1, 5); reads > 0; --reads) {
    const Op read{.verb = Verb::read,
                  .chunk = static_cast<std::uint32_t>(draw.below(std::size_t{4})),
                  .chunk_bytes = draw.one_of({std::size_t{1}, std::size_t{50}, std::size_t{10'000}})};
    co_await ask(work, read);
    const Duration pause = draw.below(Duration(1s));
    co_await sleep_for(ports_.home, pause);
  }
}

}  // namespace once::sim
