// Responses whose body stays in the chunks in which it was recorded: long streams and large ordinary responses, what a
// retry gets of them, and responses that are too large to be recorded.
#include "tests/unit/gateway/exchange/exchange_world.hpp"

namespace once::gateway::exchange_chunks_test {

using namespace std::chrono_literals;
using Kind = http::BodyChunk::Kind;

constexpr std::size_t part_size = 10'000;

using ExchangeChunks = EveryStore;
INSTANTIATE_TEST_SUITE_P(Stores, ExchangeChunks, every_setting(), name_of_setting);

std::vector<std::string> parts(std::size_t count) {
  std::vector<std::string> made;
  for (std::size_t i = 0; i < count; ++i) {
    std::string part = "id: " + std::to_string(i) + "\ndata: ";
    part.append(part_size - part.size() - 2, static_cast<char>('a' + i % 26)).append("\n\n");
    made.push_back(part);
  }
  return made;
}

std::string whole_of(const std::vector<std::string>& parts) {
  std::string whole;
  for (const std::string& part : parts) whole += part;
  return whole;
}

const std::vector<std::string> twenty = parts(20);
const std::string whole = whole_of(twenty);

// A large document that is handed over with its first part.
BackendScript large_document() {
  BackendScript script = streams(std::vector<std::string>(twenty.begin() + 3, twenty.end()), 10ms);
  script.head =
      "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " + std::to_string(whole.size()) + "\r\n\r\n";
  script.body = whole.substr(0, 3 * part_size);
  return script;
}

BackendScript too_large() {
  BackendScript script = large_document();
  script.delivery = Delivery::oversize;
  return script;
}

// All that a client got, as it streamed or at once.
std::string got(const Call& call) {
  return call.told() + (call.reply().source ? "" : call.body());
}

TEST_P(ExchangeChunks, a_long_stream_stays_in_its_chunks) {
  EXPECT_EQ(world.stream_when(streams(twenty, 10ms)).stream(), whole + " (end)");
  const auto record = world.record();
  ASSERT_TRUE(record && record->outcome);
  EXPECT_EQ(record->body_kept, BodyKept::in_chunks);
  EXPECT_EQ(decode(*record->outcome)->in_chunks, BodyInChunks{.length = whole.size()});
  EXPECT_EQ(world.counted(), world.kept());
}

TEST_P(ExchangeChunks, a_retry_replays_it_with_its_length) {
  world.stream_when(streams(twenty, 10ms));
  for (TestGateway* gateway : {&world.gateway, &world.other}) {
    const Call& again = gateway->send(world.policy, streaming);
    world.executor.run_to_the_end();
    EXPECT_EQ(again.idempotency_status(), "replayed");
    EXPECT_EQ(again.header("Idempotency-Replayed"), "true");
    EXPECT_NE(again.header("Idempotency-Expires"), "");
    EXPECT_EQ(again.reply().streamed_length, whole.size());
    EXPECT_EQ(again.stream(), whole + " (end)");
  }
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_P(ExchangeChunks, a_replay_goes_on_where_its_client_was) {
  world.stream_when(streams(twenty, 10ms));
  struct Resumed {
    std::string field;
    std::size_t offset;
  };
  for (const Resumed& at : {Resumed{"Idempotency-Offset: 123456", 123'456}, Resumed{"Last-Event-ID: 12", 130'000},
                            Resumed{"Idempotency-Offset: 999999999", whole.size()}}) {
    const Call& rest = world.gateway.send(world.policy, streaming, at.field + "\r\n");
    world.executor.run_to_the_end();
    EXPECT_EQ(rest.header("Idempotency-Offset"), std::to_string(at.offset));
    EXPECT_EQ(rest.reply().streamed_length, whole.size() - at.offset);
    EXPECT_EQ(rest.told(), whole.substr(at.offset));
    EXPECT_EQ(rest.stream_end(), Kind::end);
  }
}

TEST_P(ExchangeChunks, missing_chunks_are_reported_before_the_reply_begins) {
  world.stream_when(streams(twenty, 10ms));
  world.store.fail_next(Verb::read, Fault::no_chunks);
  EXPECT_EQ(world.ask(streaming).code(), "response-not-kept");
}

TEST_P(ExchangeChunks, chunks_that_are_gone_in_the_middle_cut_the_replay_off) {
  world.stream_when(streams(twenty, 10ms));
  world.store.fail_when([reads = 0](const Op& op, std::size_t) mutable {
    return op.verb == Verb::read && ++reads == 2 ? Fault::no_chunks : Fault::none;
  });
  const Call& again = world.stream();
  EXPECT_TRUE(whole.starts_with(again.told()));
  EXPECT_GT(again.told().size(), 0U);
  EXPECT_LT(again.told().size(), whole.size());
  EXPECT_EQ(again.stream_end(), Kind::broken);
}

TEST_P(ExchangeChunks, each_read_of_a_replay_fails_in_turn) {
  world.stream_when(streams(twenty, 10ms));
  for (int failing = 1; failing < 8; ++failing) {
    world.store.fail_when([failing, reads = 0](const Op& op, std::size_t) mutable {
      return op.verb == Verb::read && ++reads == failing ? Fault::before : Fault::none;
    });
    EXPECT_EQ(world.stream().stream(), whole + " (end)");
  }
}

TEST_P(ExchangeChunks, readers_attach_here_and_elsewhere_however_late) {
  const Call& owner = world.send_when(streams(twenty, 100ms), streaming);
  std::vector<const Call*> readers = {&owner};
  for (int i = 0; i < 4; ++i) {
    world.executor.advance(490ms);
    readers.push_back(&world.send(streaming));
    readers.push_back(&world.other.send(world.policy, streaming));
  }
  world.executor.run_to_the_end();
  for (const Call* reader : readers) {
    EXPECT_EQ(reader->stream(), whole + " (end)");
    EXPECT_EQ(reader->idempotency_status(), reader == &owner ? "executed" : "attached");
  }
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_P(ExchangeChunks, a_large_document_is_recorded_as_it_comes) {
  world.backend.then(large_document());
  world.policy.record.max_body = whole.size();
  world.policy.record.max_stream = 1;
  const Call& call = world.stream();
  EXPECT_EQ(call.reply().streamed_length, whole.size());
  EXPECT_EQ(call.stream(), whole + " (end)");
  EXPECT_EQ(world.record()->body_kept, BodyKept::in_chunks);
  EXPECT_EQ(world.stream().told(), whole);
}

TEST_P(ExchangeChunks, a_document_that_is_too_large_is_recorded_when_it_came_whole) {
  const Call& call = world.send_when(too_large(), streaming);
  world.executor.advance(50ms);
  EXPECT_EQ(world.state(), State::started);
  EXPECT_EQ(world.other.send(world.policy, streaming).told(), "");
  world.executor.run_to_the_end();
  EXPECT_EQ(call.stream(), whole + " (end)");
  const auto recorded = std::ranges::find(world.trace, "finish succeeded: done");
  ASSERT_NE(recorded, world.trace.end());
  EXPECT_NE(std::find(recorded, world.trace.end(), "told: \n"), world.trace.end()) << "its last byte comes after";
  EXPECT_EQ(std::ranges::count(world.trace, "append: done"), 0);
  EXPECT_EQ(world.record()->body_kept, BodyKept::no);
  EXPECT_EQ(world.ask(streaming).code(), "response-not-kept");
  EXPECT_EQ(world.backend.executions(), 1U);
}

TEST_P(ExchangeChunks, a_document_that_is_too_large_and_breaks_off_is_unknown) {
  BackendScript cut = too_large();
  cut.ends_with = Kind::broken;
  const Call& call = world.stream_when(cut);
  EXPECT_EQ(call.stream_end(), Kind::broken);
  EXPECT_LT(call.told().size(), whole.size());
  EXPECT_EQ(world.state(), State::unknown);
  EXPECT_EQ(world.gateway.outcomes(ClaimEnd::unknown), 1U);
}

TEST_P(ExchangeChunks, a_client_that_leaves_a_document_that_is_too_large_changes_nothing) {
  Call& call = world.send_when(too_large(), streaming);
  world.executor.advance(50ms);
  call.leave();
  world.executor.run_to_the_end();
  EXPECT_EQ(world.state(), State::succeeded);
}

// Whatever step of the store fails, and whether or not it was done: what was told is a prefix of the response, it ends
// cleanly only if it is recorded, and nothing is executed twice.
TEST_P(ExchangeChunks, each_step_of_the_store_fails_in_turn) {
  for (const auto& [sent, each] : {std::pair(parts(10), 10ms), std::pair(std::vector<std::string>{"a", "bc"}, 20ms)}) {
    for (const Fault fault : {Fault::before, Fault::after}) {
      for (std::size_t step = 0;; ++step) {
        SCOPED_TRACE(testing::Message() << sent.size() << " parts, step " << step << ", fault " << int(fault));
        World it(GetParam().shared, GetParam().execution);
        it.policy.on_unknown = OnUnknown::hold;
        it.store.fail_when([&](const Op& op, std::size_t at) {
          return at >= step && at < step + 3 && op.verb != Verb::claim ? fault : Fault::none;
        });
        const Call& call = it.send_when(streams(sent, each), streaming);
        it.executor.advance(35ms);
        const Call& there = it.other.send(it.policy, streaming);
        it.executor.run_to_the_end();
        for (const Call* reader : {&call, &there}) {
          EXPECT_TRUE(whole_of(sent).starts_with(reader->told()));
          if (reader->stream_end() != Kind::end) continue;
          EXPECT_EQ(reader->told(), whole_of(sent));
          EXPECT_EQ(it.state(), State::succeeded);
        }
        const bool reached = it.store.steps() > step;
        it.store.heal();
        const Call& again = it.stream();
        EXPECT_TRUE(got(again).starts_with(call.told()) || !again.code().empty()) << got(again).size();
        EXPECT_LE(it.backend.executions(), 1U);
        if (!reached) break;
      }
    }
  }
}

// The new claim would need the first chunks, which are not held any more.
TEST(ExchangeChunksLease, a_long_stream_does_not_survive_a_handed_claim) {
  World world;
  world.policy.on_unknown = OnUnknown::retry;
  world.policy.lease = 2s;
  world.store.fail_every(Verb::renew);
  const Call& owner = world.send_when(streams(twenty, 250ms), streaming);
  world.executor.advance(2500ms);
  const Call& retry = world.send(streaming);  // gets the lapsed claim, and this process has it at work
  world.executor.run_to_the_end();
  for (const Call* reader : {&owner, &retry}) {
    EXPECT_TRUE(whole.starts_with(reader->told()));
    EXPECT_EQ(reader->stream_end(), Kind::broken);
  }
  EXPECT_EQ(world.state(), State::unknown);
  EXPECT_EQ(world.backend.executions(), 1U);
}

// Somebody records `outcome` for the claim, just before its chunk number `chunk` is appended.
void commit_before(World& world, std::uint32_t chunk, BodyKept kept, std::string outcome) {
  auto bytes = std::make_shared<const std::string>(std::move(outcome));
  world.store.fail_when([&world, chunk, kept, bytes](const Op& op, std::size_t) {
    const auto record = world.record();
    if (op.verb != Verb::append || op.chunk != chunk || record->state != State::started) return Fault::none;
    Op finish{.verb = Verb::finish, .id = op.id, .nonce = record->nonce};
    finish.body_kept = kept;
    finish.outcome = bytes;
    finish.terms.ttl = 1h;
    world.store.run_inside(finish);
    return Fault::none;
  });
}

constexpr StoredResponse stream_head{.status = 200, .reason = "OK", .headers = "Content-Type: text/event-stream\r\n"};

std::string committed(std::string_view body) {
  StoredResponse response = stream_head;
  response.body = body;
  return encode(response);
}

TEST_P(ExchangeChunks, readers_go_on_in_what_the_backend_committed) {
  for (const std::vector<std::string>& told : {parts(3), twenty}) {
    World it(GetParam().shared, GetParam().execution);
    const std::string body = whole_of(told) + "and more";
    commit_before(it, static_cast<std::uint32_t>(told.size()), BodyKept::yes, committed(body));
    it.backend.then(streams(told, 100ms));
    const Call& owner = it.send(streaming);
    it.executor.advance(150ms);
    const Call& here = it.send(streaming);
    const Call& there = it.other.send(it.policy, streaming);
    it.executor.run_to_the_end();
    for (const Call* reader : {&owner, &here, &there}) {
      EXPECT_EQ(reader->told(), body);
      EXPECT_EQ(reader->stream_end(), Kind::end);
    }
    EXPECT_EQ(it.gateway.outcomes(ClaimEnd::succeeded), 1U);
  }
}

TEST_P(ExchangeChunks, readers_are_cut_off_where_the_backend_committed_something_else) {
  commit_before(world, 3, BodyKept::yes, committed(std::string(500'000, 'x')));
  const Call& owner = world.send_when(streams(twenty, 100ms), streaming);
  world.executor.advance(150ms);
  const Call& there = world.other.send(world.policy, streaming);
  world.executor.run_to_the_end();
  for (const Call* reader : {&owner, &there}) {
    EXPECT_EQ(reader->told(), whole.substr(0, 2 * part_size));
    EXPECT_EQ(reader->stream_end(), Kind::broken);
  }
}

TEST_P(ExchangeChunks, a_response_that_was_committed_before_its_head_is_told_instead) {
  commit_before(world, 0, BodyKept::yes, committed("committed"));
  const Call& call = world.ask_when(streams(twenty, 100ms), streaming);
  EXPECT_EQ(call.body(), "committed");
  EXPECT_EQ(call.idempotency_status(), "executed");
}

TEST_P(ExchangeChunks, a_stream_that_was_stopped_is_cut_off_and_replayed_to_where_it_was) {
  StoredResponse stopped = stream_head;
  stopped.headers = "Content-Type: text/event-stream\r\nIdempotency-Stopped: true\r\n";
  stopped.in_chunks.emplace();
  commit_before(world, 11, BodyKept::in_chunks, encode(stopped));
  const Call& owner = world.send_when(streams(twenty, 100ms), streaming);
  world.executor.advance(150ms);
  const Call& there = world.other.send(world.policy, streaming);
  world.executor.run_to_the_end();
  const std::string ten = whole.substr(0, 10 * part_size);
  for (const Call* reader : {&owner, &there}) {
    EXPECT_EQ(reader->told(), ten);
    EXPECT_EQ(reader->stream_end(), Kind::broken) << "its head did not say so";
  }
  EXPECT_EQ(world.gateway.metrics.streams_stopped.value(), 1U);
  EXPECT_EQ(world.gateway.metrics.streams_cut.value(), 0U);
  EXPECT_EQ(world.gateway.outcomes(ClaimEnd::succeeded), 1U);
  const Call& again = world.stream();
  EXPECT_EQ(again.told(), ten);
  EXPECT_EQ(again.stream_end(), Kind::end);
  EXPECT_EQ(again.header("Idempotency-Stopped"), "true");
  EXPECT_FALSE(again.reply().streamed_length);
}

TEST_P(ExchangeChunks, a_stop_is_noticed_while_the_backend_is_silent) {
  const Call& owner = world.send_when(streams({"one", "two"}, 1min), streaming);
  world.executor.advance(61s);
  StoredResponse stopped = stream_head;
  stopped.in_chunks.emplace();
  const auto record = world.record();
  Op finish{.verb = Verb::finish, .id = operation(1), .nonce = record->nonce};
  finish.body_kept = BodyKept::in_chunks;
  finish.outcome = std::make_shared<const std::string>(encode(stopped));
  world.store.run_inside(finish);
  // Here it is said; another gateway's owner finds its lease gone.
  if (GetParam().shared == Shared::no) world.gateway.ports().streams->find(operation(1))->ask_owner_to_look();
  world.executor.advance(GetParam().shared == Shared::no ? Duration(2s) : world.policy.lease / 3 + 2s);
  EXPECT_EQ(owner.stream(), "one (broken)");
  EXPECT_EQ(world.gateway.metrics.streams_stopped.value(), 1U);
}

}  // namespace once::gateway::exchange_chunks_test
