// The JSON of what operators see of streams: the list of those that this process records, and the body of one key,
// part by part. Nothing here uses a store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/stream/live_stream.hpp"
#include "store/store.hpp"

namespace once::admin {

// So many are listed, the oldest first; the count is of all.
inline constexpr std::size_t most_listed_streams = 1000;
std::string streams_json(const std::vector<StreamInfo>& streams);

// What is there of a key's response.
enum class BodyState : std::uint8_t {
  none,       // there is no response, and none is on its way
  awaited,    // its owner is at work, and no response has begun to stream
  streaming,  // its owner is at work
  whole,
  stopped,  // its caller or an operator ended it: what is there is the response
  broken,   // the owner is gone, or the response broke off
  not_kept,
};
std::string_view name_of(BodyState state);
// `read` is a read of the record, from `read.chunk` on. Without a record there is none.
BodyState body_state(const Op& read);

// Where a body is read on: the attempt that it is of, the next chunk and the bytes before it. The head is chunk 0.
struct BodyPlace {
  std::uint32_t attempt = 0;  // 0: whichever stands
  std::uint32_t chunk = 0;
  std::uint64_t offset = 0;
};
// cursor=…, or nothing. nullopt: it is something else.
std::optional<BodyPlace> read_body_place(std::string_view query);

// The part of a body that a read of the record from `from` on has found, at most `most` bytes of one that is not in
// chunks, and where it goes on: {"state":…,"next":…}. "next" is null when there is no more.
std::string body_json(const Op& read, const BodyPlace& from, std::size_t most);

// What a key shows of its stream: "stream":{…}, and a comma.
struct StreamSize {
  std::optional<std::uint64_t> chunks{};  // of the body
  std::optional<std::uint64_t> bytes{};
  std::size_t readers = 0;  // here
};
std::string stream_member_json(BodyState state, const StreamSize& size);

}  // namespace once::admin
