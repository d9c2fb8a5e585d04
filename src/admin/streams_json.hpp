// The JSON of streams for operators: the list of those that this process records, and the body of one key in parts.
// Nothing here uses a store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/stream/live_stream.hpp"
#include "store/store.hpp"

namespace once::admin {

// The most that are listed, the oldest first; the count includes all.
inline constexpr std::size_t most_listed_streams = 1000;
std::string streams_json(const std::vector<StreamInfo>& streams);

// The state of a key's response body.
enum class BodyState : std::uint8_t {
  none,       // there is no response, and none is expected
  awaited,    // the owner is executing, and no response has begun to stream
  streaming,  // the owner is executing
  whole,
  stopped,  // its caller or an operator ended it: what exists is the response
  broken,   // the owner is gone, or the response was interrupted
  not_kept,
};
std::string_view name_of(BodyState state);
// `read` is a read of the record, from chunk `read.chunk` on. Without a record the state is `none`.
BodyState body_state(const Op& read);

// The position to continue a body: its attempt, the next chunk and the bytes before it. The head is chunk 0.
struct BodyPlace {
  std::uint32_t attempt = 0;  // 0: the current one
  std::uint32_t chunk = 0;
  std::uint64_t offset = 0;
};
// Parses cursor=…, or an empty query. nullopt: it is malformed.
std::optional<BodyPlace> read_body_place(std::string_view query);

// The part of a body that a read from `from` on returned, at most `most` bytes if it is not in chunks, and where it
// continues: {"state":…,"next":…}. "next" is null at the end.
std::string body_json(const Op& read, const BodyPlace& from, std::size_t most);

// Adds "stream":{…}, for a key's stream, followed by a comma.
struct StreamSize {
  std::optional<std::uint64_t> chunks{};  // of the body
  std::optional<std::uint64_t> bytes{};
  std::size_t readers = 0;  // in this process
};
std::string stream_member_json(BodyState state, const StreamSize& size);

}  // namespace once::admin
