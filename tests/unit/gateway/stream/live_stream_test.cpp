// What a process holds of a response that it records as it streams, and what each of its readers finds.
#include "gateway/stream/live_stream.hpp"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace once::gateway::live_stream_test {

using Found = LiveStream::Look::Found;

constexpr std::size_t unlimited = SIZE_MAX;

OutcomeBytes bytes(std::size_t size) {
  return std::make_shared<const std::string>(size, 'x');
}

struct LiveStreamTest : testing::Test {
  void publish(std::size_t size, std::size_t most = unlimited) { live->publish(bytes(size), most); }

  Usage usage;
  std::shared_ptr<LiveStream> live = std::make_shared<LiveStream>(StreamOrigin(), usage);
};

TEST_F(LiveStreamTest, holds_a_window_whatever_was_published) {
  live->begin(bytes(100));
  for (int i = 0; i < 1000; ++i) {
    publish(10'000);
    EXPECT_LE(live->bytes(), LiveStream::window);
    EXPECT_EQ(usage.body_bytes, live->bytes());
  }
  EXPECT_EQ(live->head()->size(), 100U);
  EXPECT_EQ(live->held().first, 995U);
  EXPECT_EQ(live->held().chunks.size(), 6U);
  live.reset();
  EXPECT_EQ(usage.body_bytes, 0U);
}

TEST_F(LiveStreamTest, holds_all_of_a_short_body_with_its_head) {
  live->begin(bytes(100));
  publish(LiveStream::window);
  EXPECT_EQ(live->held().first, 0U);
  EXPECT_EQ(live->held().chunks.size(), 2U);
  publish(1);
  EXPECT_EQ(live->held().first, 2U);
}

TEST_F(LiveStreamTest, the_end_of_an_older_attempt_does_not_hide_the_stream_of_the_next) {
  LiveStreams streams(usage);
  const auto older = streams.make({.id = {}, .attempt = Attempt{1}}, {});
  const auto newer = streams.make({.id = {}, .attempt = Attempt{2}}, {});
  streams.list(older);
  streams.list(newer);
  streams.remove(*older);
  EXPECT_EQ(streams.find({}), newer);
  streams.remove(*newer);
  EXPECT_EQ(streams.find({}), nullptr);
}

TEST_F(LiveStreamTest, the_last_chunk_is_held_however_large_it_is) {
  live->begin(bytes(100));
  const LiveStream::Place reader(live);
  publish(3 * LiveStream::window);
  EXPECT_EQ(reader.look().found, Found::chunk);
}

TEST_F(LiveStreamTest, without_memory_nothing_is_held_and_everything_is_in_the_store) {
  live->begin(bytes(100));
  LiveStream::Place reader(live);
  publish(1000);
  publish(1000, 1500);
  EXPECT_EQ(reader.look().found, Found::in_store);
  EXPECT_EQ(reader.advance(2), LiveStream::Place::Owner::runs);
  EXPECT_EQ(reader.look().found, Found::nothing);
  EXPECT_EQ(usage.body_bytes, 0U);
  publish(1000);
  EXPECT_EQ(reader.look().found, Found::chunk);
}

TEST_F(LiveStreamTest, a_reader_that_is_behind_finds_its_chunk_in_the_store) {
  live->begin(bytes(100));
  LiveStream::Place slow(live);
  LiveStream::Place fast(live);
  for (int i = 0; i < 20; ++i) {
    publish(10'000);
    EXPECT_EQ(fast.look().found, Found::chunk);
    EXPECT_EQ(fast.advance(), LiveStream::Place::Owner::runs);
  }
  EXPECT_EQ(slow.look().found, Found::in_store);
  EXPECT_EQ(slow.advance(14), LiveStream::Place::Owner::runs);
  EXPECT_EQ(slow.look().found, Found::chunk);
  live->end(StreamState::whole);
  EXPECT_EQ(fast.look().found, Found::nothing);
  EXPECT_EQ(fast.look().state, StreamState::whole);
  EXPECT_EQ(slow.look().found, Found::chunk) << "it has not read it yet";
}

TEST_F(LiveStreamTest, what_is_relayed_waits_for_the_fastest_reader) {
  live->begin(bytes(100));
  LiveStream::Place slow(live);
  LiveStream::Place fast(live);
  publish(50'000);
  publish(50'000);
  live->begin_relay(100'000);
  EXPECT_EQ(live->head(), nullptr) << "nobody attaches to it any more";
  for (int i = 0; i < 4; ++i) live->relay(bytes(30'000));
  EXPECT_TRUE(live->fastest_is_behind(100'000));
  EXPECT_EQ(fast.look().found, Found::in_store);
  EXPECT_TRUE(live->all_read_store());
  EXPECT_EQ(fast.advance(2), LiveStream::Place::Owner::runs) << "the recorded part";
  EXPECT_FALSE(live->all_read_store());
  EXPECT_EQ(fast.look().found, Found::chunk);
  EXPECT_EQ(fast.advance(), LiveStream::Place::Owner::wakes) << "this is what its owner waits for";
  EXPECT_FALSE(live->fastest_is_behind(100'000));
  for (int i = 0; i < 4; ++i) {
    live->relay(bytes(30'000));
    EXPECT_EQ(fast.advance(), LiveStream::Place::Owner::runs);
  }
  EXPECT_EQ(slow.look().found, Found::in_store);
  EXPECT_EQ(slow.advance(2), LiveStream::Place::Owner::runs);
  EXPECT_EQ(slow.look().found, Found::gone) << "it was relayed, and is held for nobody but the fastest";
}

TEST_F(LiveStreamTest, without_a_reader_what_is_relayed_is_not_held) {
  live->begin(bytes(100));
  live->begin_relay(100'000);
  for (int i = 0; i < 100; ++i) live->relay(bytes(30'000));
  EXPECT_EQ(live->bytes(), 0U);
  EXPECT_FALSE(live->fastest_is_behind(1));
}

TEST_F(LiveStreamTest, its_streams_are_counted) {
  LiveStreams streams(usage);
  const auto one = streams.make(StreamOrigin());
  one->begin(bytes(10));
  one->publish(bytes(1000), unlimited);
  EXPECT_EQ(streams.counts().streams, 0U);
  streams.list(one);
  const LiveStream::Place reader(one);
  EXPECT_EQ(streams.counts().streams, 1U);
  EXPECT_EQ(streams.counts().readers, 1U);
  EXPECT_EQ(streams.counts().bytes, 1000U);
  streams.remove(*one);
  EXPECT_EQ(streams.counts().streams, 0U);
}

TEST_F(LiveStreamTest, operators_see_all_that_are_listed_the_oldest_first) {
  LiveStreams streams(usage);
  OperationId second;
  second.bytes[20] = 1;
  const auto young = streams.make({.id = second}, {.tenant = "b", .route = "/b", .since = Time(Duration(2))});
  const auto old = streams.make({.attempt = Attempt{3}}, {.tenant = "a", .route = "/a", .since = Time(Duration(1))});
  EXPECT_TRUE(streams.snapshot().empty());
  streams.list(young);
  streams.list(old);
  old->begin(bytes(10));
  for (int i = 0; i < 10; ++i) old->publish(bytes(30'000), unlimited);
  old->publish(bytes(5), 0);
  const LiveStream::Place reader(old);
  const std::vector<StreamInfo> seen = streams.snapshot();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].id, OperationId());
  EXPECT_EQ(seen[0].attempt, Attempt{3});
  EXPECT_EQ(seen[0].labels.route, "/a");
  EXPECT_EQ(seen[0].bytes, 300'005U) << "also what is not held any more";
  EXPECT_EQ(seen[0].readers, 1U);
  EXPECT_EQ(seen[1].labels.tenant, "b");
}

}  // namespace once::gateway::live_stream_test
