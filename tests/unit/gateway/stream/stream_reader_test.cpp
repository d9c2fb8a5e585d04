// A reader of a stream, at its own speed: from memory while its next chunk is held, from the store otherwise.
#include "gateway/stream/stream_reader.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "core/outcome.hpp"
#include "tests/unit/support/faulty_store.hpp"
#include "tests/unit/support/virtual_time.hpp"

namespace once::gateway::stream_reader_test {

using namespace std::chrono_literals;
using Kind = http::BodyChunk::Kind;

constexpr std::size_t chunk_size = 10'000;

// A client that takes what comes when the test says so.
class Client {
 public:
  explicit Client(http::ResponseSourcePtr source) : source_(std::move(source)) {}

  // Asks for one part, unless one is asked for.
  void ask() {
    if (!asking_ && !end_) spawn(next());
  }
  const std::string& got() const { return got_; }
  std::optional<Kind> end() const { return end_; }
  bool asking() const { return asking_; }

 private:
  Task<void> next() {
    asking_ = true;
    const http::BodyChunk chunk = co_await source_->next(10s);
    asking_ = false;
    if (chunk.kind == Kind::data) {
      got_.append(chunk.data);
    } else {
      end_ = chunk.kind;
    }
  }

  http::ResponseSourcePtr source_;
  std::string got_;
  std::optional<Kind> end_;
  bool asking_ = false;
};

class NoRoomMaker final : public RoomMaker {
 public:
  void make_room() override {}
  void make_own_room() override {}
  void make_spool_room() override {}
};

struct ReaderWorld {
  ReaderWorld() {
    Op claim{.verb = Verb::claim, .id = live->id(), .nonce = live->nonce()};
    claim.terms.ttl = 1h;
    claim.terms.lease = Duration::max();
    store.run_inside(claim);
    memory.begin(std::size_t{1} << 20U, {});
    append(head);
    live->begin(head);
  }

  void append(const OutcomeBytes& chunk) {
    Op op{.verb = Verb::append, .id = live->id(), .nonce = live->nonce()};
    op.chunk = appended++;
    op.outcome = chunk;
    store.run_inside(op);
    EXPECT_EQ(op.status, OpStatus::done);
  }
  void publish(std::size_t chunks) {
    for (std::size_t i = 0; i < chunks; ++i) {
      const auto chunk = std::make_shared<const std::string>(chunk_size, static_cast<char>('a' + appended % 26));
      append(chunk);
      whole += *chunk;
      live->publish(chunk, SIZE_MAX);
    }
    streams.readers().notify(live->id());
  }
  void end(StreamState state) {
    live->end(state);
    streams.readers().notify(live->id());
  }
  void finish(State state, BodyKept kept) {
    Op op{.verb = Verb::finish, .id = live->id(), .nonce = live->nonce(), .final_state = state};
    op.body_kept = kept;
    op.outcome = head;
    op.terms.ttl = 1h;
    store.run_inside(op);
    EXPECT_EQ(op.status, OpStatus::done);
  }

  Client reader(std::uint64_t skip = 0) {
    const StreamReaderPorts ports{
        .store = lanes, .waiters = waiters, .readers = streams.readers(), .home = executor, .memory = &memory};
    return Client(read_stream(ports, {.id = live->id(), .head = head, .live = live, .skip = skip}));
  }
  void read_all(Client& client) {
    for (int i = 0; i < 1000 && !client.end() && client.got().size() < whole.size(); ++i) {
      client.ask();
      executor.advance(20ms);
    }
  }
  std::size_t reads() const { return static_cast<std::size_t>(std::ranges::count(trace, "read: done")); }

  Trace trace;
  ManualClock clock;
  VirtualExecutor executor{clock};
  FaultyStore store{clock, Shared::no, FaultyStore::Execution::in_a_lane, trace};
  VirtualLanes lanes{store, executor};
  Waiters waiters;
  Usage usage;
  LiveStreams streams{usage};
  SharedOutcomes told{usage};
  Metrics metrics;
  NoRoomMaker room;
  ReaderMemory reader_memory{usage};
  ResponseMemory memory{usage, reader_memory, told, executor, metrics, room};
  std::shared_ptr<LiveStream> live = streams.make(StreamOrigin());
  const OutcomeBytes head =
      std::make_shared<const std::string>(encode({.status = 200, .reason = "OK", .headers = "X: 1\r\n"}));
  std::uint32_t appended = 0;
  std::string whole;
};

struct StreamReaderTest : testing::Test, ReaderWorld {};

TEST_F(StreamReaderTest, one_that_keeps_up_never_asks_the_store) {
  Client client = reader();
  for (int i = 0; i < 50; ++i) {
    publish(1);
    read_all(client);
    EXPECT_EQ(client.got(), whole);
  }
  end(StreamState::whole);
  client.ask();
  EXPECT_EQ(client.end(), Kind::end);
  EXPECT_EQ(store.steps(), 0U);
}

TEST_F(StreamReaderTest, one_that_is_behind_reads_the_store_until_it_has_caught_up) {
  Client client = reader();
  publish(100);
  read_all(client);
  EXPECT_EQ(client.got(), whole);
  EXPECT_EQ(reads(), 16U) << "six chunks a read, to where the window begins";
  publish(1);
  read_all(client);
  EXPECT_EQ(client.got(), whole);
  EXPECT_EQ(reads(), 16U);
}

TEST_F(StreamReaderTest, a_slow_one_takes_the_memory_of_one_read) {
  Client slow = reader();
  publish(1);
  slow.ask();
  publish(200);
  slow.ask();
  executor.advance(20ms);
  EXPECT_EQ(usage.bytes_held_for[static_cast<std::size_t>(HeldFor::replay)], bytes_per_read);
  EXPECT_LE(usage.body_bytes, bytes_per_read + LiveStream::window);
  read_all(slow);
  EXPECT_EQ(slow.got(), whole);
  EXPECT_EQ(usage.bytes_held_for[static_cast<std::size_t>(HeldFor::replay)], 0U) << "it has caught up";
}

TEST_F(StreamReaderTest, without_memory_for_a_read_it_is_cut_off) {
  memory.begin(1000, {});
  Client client = reader();
  publish(20);
  client.ask();
  executor.advance(5s);
  EXPECT_EQ(client.end(), Kind::broken);
  EXPECT_EQ(client.got(), "");
}

TEST_F(StreamReaderTest, it_skips_what_its_client_has) {
  Client client = reader(55'555);
  publish(20);
  end(StreamState::whole);
  for (int i = 0; i < 100 && !client.end(); ++i) {
    client.ask();
    executor.advance(20ms);
  }
  EXPECT_EQ(client.got(), whole.substr(55'555));
  EXPECT_EQ(client.end(), Kind::end);
}

TEST_F(StreamReaderTest, each_read_fails_in_turn_and_nothing_is_missing) {
  publish(30);
  for (const Fault fault : {Fault::before, Fault::no_chunks}) {
    for (int failing = 1; failing < 8; ++failing) {
      store.fail_when([failing, fault, at = 0](const Op& op, std::size_t) mutable {
        return op.verb == Verb::read && ++at == failing ? fault : Fault::none;
      });
      Client client = reader();
      read_all(client);
      EXPECT_EQ(client.got(), whole) << failing;
      EXPECT_FALSE(client.end());
    }
  }
}

TEST_F(StreamReaderTest, a_store_that_does_not_answer_ends_it_when_its_patience_ends) {
  publish(30);
  store.go_down();
  Client client = reader();
  client.ask();
  executor.advance(9s);
  EXPECT_FALSE(client.end());
  executor.advance(5s);
  EXPECT_EQ(client.end(), Kind::broken);
}

TEST_F(StreamReaderTest, one_that_is_behind_when_it_ends_gets_what_is_kept_of_it) {
  struct Row {
    std::string_view name;
    State state;
    BodyKept kept;
    StreamState ended;
    Kind end;
  };
  for (const Row& row : {Row{"all of it", State::succeeded, BodyKept::in_chunks, StreamState::whole, Kind::end},
                         Row{"the prefix", State::unknown, BodyKept::yes, StreamState::cut, Kind::broken},
                         Row{"dropped chunks", State::succeeded, BodyKept::no, StreamState::whole, Kind::broken}}) {
    SCOPED_TRACE(row.name);
    ReaderWorld fresh;
    Client client = fresh.reader();
    fresh.publish(30);
    fresh.finish(row.state, row.kept);
    fresh.end(row.ended);
    fresh.read_all(client);
    client.ask();
    fresh.executor.advance(20ms);
    EXPECT_EQ(client.got(), row.kept == BodyKept::no ? "" : fresh.whole);
    EXPECT_EQ(client.end(), row.end);
  }
}

TEST_F(StreamReaderTest, it_goes_on_from_the_store_to_what_is_relayed) {
  Client client = reader();
  publish(30);
  live->begin_relay(100'000);
  const std::string relayed = "this is not recorded";
  live->relay(std::make_shared<const std::string>(relayed));
  read_all(client);
  client.ask();
  executor.advance(20ms);
  EXPECT_EQ(client.got(), whole + relayed);
}

}  // namespace once::gateway::stream_reader_test
