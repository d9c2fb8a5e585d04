// Which responses are recorded as they stream, and where a reader goes on.
#include "core/event_stream.hpp"

#include <gtest/gtest.h>

#include "core/outcome.hpp"

namespace once::core::event_stream_test {

RecordPolicy policy_of(StreamRecording stream) {
  RecordPolicy policy = default_record_policy();
  policy.stream = stream;
  return policy;
}

TEST(RecordedAsItStreams, by_its_type_and_status) {
  const RecordPolicy automatic = policy_of(StreamRecording::automatic);
  const auto streams = [&](int status, std::string_view type) {
    return is_recorded_as_it_streams({.status = status, .content_type = type, .backend = {}}, automatic);
  };
  EXPECT_TRUE(streams(200, "text/event-stream"));
  EXPECT_TRUE(streams(200, "Text/Event-Stream; charset=utf-8"));
  EXPECT_TRUE(streams(201, "application/x-ndjson"));
  EXPECT_TRUE(streams(404, "application/jsonl"));
  EXPECT_FALSE(streams(200, "application/json"));
  EXPECT_FALSE(streams(200, ""));
  EXPECT_FALSE(streams(500, "text/event-stream")) << "a failure is settled by the whole response";
  EXPECT_FALSE(streams(429, "text/event-stream")) << "so is a refusal";
}

TEST(RecordedAsItStreams, unless_a_route_asks_otherwise) {
  EXPECT_EQ(default_record_policy().stream, StreamRecording::automatic);
}

TEST(RecordedAsItStreams, always_and_never) {
  const StreamedHead json{.status = 200, .content_type = "application/json", .backend = {}};
  EXPECT_TRUE(is_recorded_as_it_streams(json, policy_of(StreamRecording::always)));
  const StreamedHead events{.status = 200, .content_type = "text/event-stream", .backend = {}};
  EXPECT_FALSE(is_recorded_as_it_streams(events, policy_of(StreamRecording::off)));
}

TEST(RecordedAsItStreams, not_if_the_backend_says_otherwise) {
  StreamedHead events{.status = 200, .content_type = "text/event-stream", .backend = {}};
  events.backend.record = BackendPolicy::Record::no_store;
  EXPECT_FALSE(is_recorded_as_it_streams(events, policy_of(StreamRecording::automatic)));
  events.backend.record = BackendPolicy::Record::retry;
  EXPECT_FALSE(is_recorded_as_it_streams(events, policy_of(StreamRecording::automatic)));
  events.status = 500;
  events.backend.record = BackendPolicy::Record::final;
  EXPECT_TRUE(is_recorded_as_it_streams(events, policy_of(StreamRecording::automatic)));
}

// What follows the event with this id; "none" if there is no such event.
std::string_view after(std::string_view stream, std::string_view id) {
  const auto offset = offset_after_event(stream, id);
  return offset ? stream.substr(*offset) : "none";
}

TEST(OffsetAfterEvent, is_behind_the_blank_line_of_the_event) {
  constexpr std::string_view stream = "id: 1\ndata: a\n\nid: 2\ndata: b\n\ndata: c\n\n";
  EXPECT_EQ(after(stream, "1"), "id: 2\ndata: b\n\ndata: c\n\n");
  EXPECT_EQ(after(stream, "2"), "data: c\n\n");
  EXPECT_EQ(after(stream, "3"), "none");
  EXPECT_EQ(after("", "1"), "none");
}

TEST(OffsetAfterEvent, every_end_of_a_line) {
  EXPECT_EQ(after("id: 1\r\ndata: a\r\n\r\nrest", "1"), "rest");
  EXPECT_EQ(after("id: 1\rdata: a\r\rrest", "1"), "rest");
  EXPECT_EQ(after("id: 1\rdata: a\n\r\nrest", "1"), "rest");
}

TEST(OffsetAfterEvent, ids_are_opaque) {
  EXPECT_EQ(after("id:x:y \n\nrest", "x:y "), "rest");
  EXPECT_EQ(after("id:  two spaces\n\nrest", " two spaces"), "rest");
  EXPECT_EQ(after("id\n\nrest", ""), "rest") << "an id without a value resets it";
  EXPECT_EQ(after("ID: 1\n\nrest", "1"), "none") << "names have a case";
  EXPECT_EQ(after(": id: 1\n\nrest", "1"), "none") << "a comment";
  EXPECT_EQ(after(std::string_view("id: 1\0\n\nrest", 12), std::string_view("1\0", 2)), "none") << "ignored";
}

TEST(OffsetAfterEvent, the_last_id_of_an_event_counts_and_the_last_event_with_it) {
  EXPECT_EQ(after("id: 1\nid: 2\n\nrest", "1"), "none");
  EXPECT_EQ(after("id: 1\nid: 2\n\nrest", "2"), "rest");
  EXPECT_EQ(after("id: 1\n\nid: 1\n\nrest", "1"), "rest");
}

TEST(OffsetAfterEvent, an_event_that_is_not_complete_was_not_seen) {
  EXPECT_EQ(after("id: 1\ndata: a\n", "1"), "none");
  EXPECT_EQ(after("id: 1\ndata: a", "1"), "none");
  EXPECT_EQ(after("\xEF\xBB\xBFid: 1\n\nrest", "1"), "rest") << "a byte order mark is no part of a name";
}

TEST(EventFinder, parts_of_any_size_say_the_same_as_the_whole) {
  constexpr std::string_view stream = "id: 1\r\ndata: a\r\n\r\nid: 2\n\nid: 1\r\rdata: x\n\n";
  for (const std::string_view id : {"1", "2", "3"}) {
    const auto whole = offset_after_event(stream, id);
    for (std::size_t size = 1; size < stream.size(); ++size) {
      EventFinder finder(id);
      for (std::size_t at = 0; at < stream.size(); at += size) finder.add(stream.substr(at, size));
      EXPECT_EQ(finder.offset(), whole) << id << " in parts of " << size;
    }
  }
}

}  // namespace once::core::event_stream_test
