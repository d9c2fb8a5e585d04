#include "admin/streams_json.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "admin/json.hpp"
#include "admin/keys_json.hpp"
#include "base/text.hpp"
#include "core/outcome.hpp"
#include "gateway/stream/stopped_stream.hpp"
#include "store/search.hpp"

namespace once::admin {

namespace {

std::string number_or_null(std::optional<std::uint64_t> number) {
  return number ? fmt::to_string(*number) : "null";
}

bool may_grow(BodyState state) {
  return state == BodyState::awaited || state == BodyState::streaming;
}

}  // namespace

std::string streams_json(const std::vector<StreamInfo>& streams) {
  Json out;
  out.begin('{').member("count", streams.size()).name("streams").begin('[');
  for (std::size_t i = 0; i < std::min(streams.size(), most_listed_streams); ++i) {
    const StreamInfo& stream = streams[i];
    out.begin('{').member("id", to_hex(stream.id)).member("caller", stream.labels.tenant);
    out.member("route", stream.labels.route).member("attempt", static_cast<std::uint32_t>(stream.attempt));
    out.member("since", rfc3339(stream.labels.since)).member("bytes", stream.bytes).member("readers", stream.readers);
    out.end('}');
  }
  return out.end(']').end('}').take() + "\n";
}

std::string_view name_of(BodyState state) {
  switch (state) {
    case BodyState::none: return "none";
    case BodyState::awaited: return "awaited";
    case BodyState::streaming: return "streaming";
    case BodyState::whole: return "whole";
    case BodyState::stopped: return "stopped";
    case BodyState::broken: return "broken";
    case BodyState::not_kept: return "not_kept";
  }
  return "";
}

BodyState body_state(const Op& read) {
  if (!read.record) return BodyState::none;
  const Record& record = *read.record;
  const bool begun = read.chunk > 0 || !read.chunks.empty();
  switch (record.state) {
    case State::started:
      if (read.now < record.lease_until) return begun ? BodyState::streaming : BodyState::awaited;
      return begun ? BodyState::broken : BodyState::none;
    case State::unknown: return begun ? BodyState::broken : BodyState::none;
    case State::succeeded:
      if (record.body_kept == BodyKept::no) return BodyState::not_kept;
      return gateway::is_stopped(record) ? BodyState::stopped : BodyState::whole;
    case State::failed:
    case State::tombstone: break;
  }
  return BodyState::none;
}

std::optional<BodyPlace> read_body_place(std::string_view query) {
  if (query.empty()) return BodyPlace{};
  static constexpr std::string_view name = "cursor=";
  if (!query.starts_with(name)) return std::nullopt;
  const auto numbers = read_cursor(query.substr(name.size()), 3);
  constexpr auto most = std::numeric_limits<std::uint32_t>::max();
  if (!numbers || (*numbers)[0] > most || (*numbers)[1] > most) return std::nullopt;
  return BodyPlace{.attempt = static_cast<std::uint32_t>((*numbers)[0]),
                   .chunk = static_cast<std::uint32_t>((*numbers)[1]),
                   .offset = (*numbers)[2]};
}

std::string body_json(const Op& read, const BodyPlace& from, std::size_t most) {
  const BodyState state = body_state(read);
  const auto response = read.record && read.record->outcome ? decode(*read.record->outcome) : std::nullopt;
  std::string body;
  BodyPlace next = from;
  bool ended = !may_grow(state) && read.chunks.empty();
  if (state == BodyState::whole && response && !response->in_chunks) {
    const std::size_t at = std::min<std::uint64_t>(from.offset, response->body.size());
    body = response->body.substr(at, most);
    ended = at + body.size() == response->body.size();
  } else {
    for (const OutcomeBytes& chunk : read.chunks) {
      if (next.chunk++ > 0) body.append(*chunk);
    }
  }
  next.offset += body.size();
  std::string out = fmt::format(R"({{"state":"{}")", name_of(state));
  append_body(out, body);
  if (ended) return out + ",\"next\":null}\n";
  const auto attempt = read.record ? static_cast<std::uint32_t>(read.record->attempt) : 0;
  return out + fmt::format(",\"next\":\"{}\"}}\n", cursor_of({attempt, next.chunk, next.offset}));
}

std::string stream_member_json(BodyState state, const StreamSize& size) {
  return fmt::format(R"("stream":{{"state":"{}","chunks":{},"bytes":{},"readers":{}}},)", name_of(state),
                     number_or_null(size.chunks), number_or_null(size.bytes), size.readers);
}

}  // namespace once::admin
