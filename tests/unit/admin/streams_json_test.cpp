#include "admin/streams_json.hpp"

#include <gtest/gtest.h>

#include "core/json_tree.hpp"
#include "core/outcome.hpp"
#include "gateway/stream/stopped_stream.hpp"

namespace once::admin::streams_json_test {

constexpr Time now{Duration(1'763'225'643'007)};

OutcomeBytes bytes(std::string_view text) {
  return std::make_shared<const std::string>(text);
}
OutcomeBytes encoded(const StoredResponse& response) {
  return bytes(encode(response));
}

// What a read of the record from the chunk on finds.
Op read_of(State state, std::uint32_t from = 0, const std::vector<std::string_view>& chunks = {}) {
  Op read{.verb = Verb::read, .chunk = from, .status = OpStatus::done, .now = now};
  read.record = Record{.state = state, .attempt = Attempt{2}, .lease_until = now + std::chrono::seconds(1)};
  for (const std::string_view chunk : chunks) read.chunks.push_back(bytes(chunk));
  return read;
}

TEST(StreamsJson, lists_what_streams) {
  StreamInfo stream{.attempt = Attempt{2}, .labels = {.tenant = "t", .route = "/\"", .since = now}, .bytes = 7};
  stream.readers = 3;
  const std::string json = streams_json({stream});
  const auto tree = JsonTree::parse(json);
  ASSERT_TRUE(tree.has_value()) << json;
  EXPECT_TRUE(json.contains(R"("caller":"t","route":"/\"","attempt":2,"since":"2025-11-15T16:54:03.007Z","bytes":7,)"
                            R"("readers":3})"))
      << json;
  EXPECT_EQ(tree->find("count")->number()->text, "1");
  EXPECT_EQ(streams_json({}), "{\"count\":0,\"streams\":[]}\n");
  const std::vector<StreamInfo> many(most_listed_streams + 1, stream);
  const auto cut = JsonTree::parse(streams_json(many));
  EXPECT_EQ(cut->find("count")->number()->text, "1001");
  EXPECT_EQ(cut->find("streams")->array()->size(), most_listed_streams);
}

TEST(BodyState, follows_from_the_record) {
  EXPECT_EQ(body_state(read_of(State::started)), BodyState::awaited);
  EXPECT_EQ(body_state(read_of(State::started, 0, {"head"})), BodyState::streaming);
  EXPECT_EQ(body_state(read_of(State::started, 4)), BodyState::streaming) << "the next chunk is not there yet";
  Op lapsed = read_of(State::started, 4);
  lapsed.now = lapsed.record->lease_until;
  EXPECT_EQ(body_state(lapsed), BodyState::broken);
  EXPECT_EQ(body_state(read_of(State::unknown, 0, {"head"})), BodyState::broken);
  EXPECT_EQ(body_state(read_of(State::unknown)), BodyState::none);
  EXPECT_EQ(body_state(read_of(State::failed)), BodyState::none);
  Op ended = read_of(State::succeeded);
  ended.record->outcome = encoded({.body = "b"});
  EXPECT_EQ(body_state(ended), BodyState::whole);
  ended.record->outcome = gateway::stopped_outcome({.headers = "A: b\r\n"});
  EXPECT_EQ(body_state(ended), BodyState::stopped);
  ended.record->body_kept = BodyKept::no;
  EXPECT_EQ(body_state(ended), BodyState::not_kept);
  EXPECT_EQ(body_state(Op()), BodyState::none);
}

TEST(BodyJson, goes_on_behind_the_last_chunk) {
  EXPECT_EQ(body_json(read_of(State::started), {}, 100), "{\"state\":\"awaited\",\"body\":\"\",\"next\":\"2.0.0\"}\n");
  EXPECT_EQ(body_json(read_of(State::started, 0, {"head", "ab", "c"}), {}, 100),
            "{\"state\":\"streaming\",\"body\":\"abc\",\"next\":\"2.3.3\"}\n");
  const BodyPlace third{.attempt = 2, .chunk = 3, .offset = 3};
  EXPECT_EQ(body_json(read_of(State::started, 3), third, 100),
            "{\"state\":\"streaming\",\"body\":\"\",\"next\":\"2.3.3\"}\n");
  EXPECT_EQ(body_json(read_of(State::unknown, 3, {"\xff"}), third, 100),
            "{\"state\":\"broken\",\"body_base64\":\"/w==\",\"next\":\"2.4.4\"}\n");
  EXPECT_EQ(body_json(read_of(State::unknown, 3), third, 100), "{\"state\":\"broken\",\"body\":\"\",\"next\":null}\n");
}

TEST(BodyJson, a_stream_that_was_joined_at_its_end_goes_on_by_its_offset) {
  Op read = read_of(State::succeeded, 3);
  read.record->outcome = encoded({.body = "abcdefgh"});
  EXPECT_EQ(body_json(read, {.attempt = 2, .chunk = 3, .offset = 3}, 4),
            "{\"state\":\"whole\",\"body\":\"defg\",\"next\":\"2.3.7\"}\n");
  EXPECT_EQ(body_json(read, {.attempt = 2, .chunk = 3, .offset = 7}, 4),
            "{\"state\":\"whole\",\"body\":\"h\",\"next\":null}\n");
  EXPECT_EQ(body_json(read, {.attempt = 2, .chunk = 3, .offset = 99}, 4),
            "{\"state\":\"whole\",\"body\":\"\",\"next\":null}\n");
}

TEST(BodyPlace, is_read_from_a_cursor) {
  EXPECT_EQ(read_body_place("")->attempt, 0U);
  EXPECT_EQ(read_body_place("cursor=")->chunk, 0U);
  const auto place = read_body_place("cursor=2.3.44");
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->attempt, 2U);
  EXPECT_EQ(place->chunk, 3U);
  EXPECT_EQ(place->offset, 44U);
  for (const std::string_view wrong :
       {"cursor=1.2", "cursor=x", "offset=3", "cursor=4294967296.0.0", "cursor=1.2.3&a=b"}) {
    EXPECT_FALSE(read_body_place(wrong).has_value()) << wrong;
  }
}

}  // namespace once::admin::streams_json_test
