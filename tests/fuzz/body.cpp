// Bodies: the same bytes give the same body, the same end and the same leftover, however they come in. The first byte
// of the input is the framing (c: chunked, l: length, else until the end of the stream), the second the length and how
// it is cut, the rest is the stream.
#include "http/body.hpp"

#include <algorithm>
#include <string>

#include "tests/fuzz/input.hpp"

namespace {

using once::http::BodyDecoder;
using once::http::Buffer;
using once::http::Framing;

struct Decoded {
  BodyDecoder::Kind kind = BodyDecoder::Kind::need_more;  // how it stopped
  std::string data;
  std::size_t consumed = 0;
  bool may_end = false;  // if the stream ends here

  bool operator==(const Decoded&) const = default;
};

// In pieces of up to `largest` bytes, of which the sizes follow from `seed`.
Decoded decode(const Framing& framing, std::string_view stream, std::size_t largest, std::uint32_t seed) {
  BodyDecoder decoder(framing);
  Buffer buffer;
  buffer.grow(stream.size() + 1);
  Decoded decoded;
  std::size_t fed = 0;
  for (;;) {
    const BodyDecoder::Step step = decoder.next(buffer);
    decoded.kind = step.kind;
    if (step.kind == BodyDecoder::Kind::data) {
      ONCE_ASSERT(!step.data.empty());
      decoded.data += step.data;
      continue;
    }
    if (step.kind != BodyDecoder::Kind::need_more || fed == stream.size()) break;
    seed = seed * 1664525 + 1013904223;
    const std::size_t size = std::min(stream.size() - fed, 1 + (seed >> 16U) % largest);
    const auto room = buffer.room();
    ONCE_ASSERT(room.size() >= size);
    stream.copy(room.data(), size, fed);
    buffer.commit(size);
    fed += size;
  }
  ONCE_ASSERT(decoder.ended() == (decoded.kind == BodyDecoder::Kind::end));
  decoded.consumed = fed - buffer.unread().size();
  decoded.may_end = decoder.end_of_stream();
  return decoded;
}

std::string in_chunks(std::string_view data, std::size_t size) {
  std::string stream;
  for (; !data.empty(); data.remove_prefix(std::min(size, data.size()))) {
    const std::string_view chunk = data.substr(0, size);
    char line[18];
    stream.append(line, once::http::write_chunk_size(line, chunk.size()));
    stream.append(chunk).append("\r\n");
  }
  return stream.append(once::http::last_chunk);
}

void check_plain(const Framing& framing, std::string_view stream, const Decoded& whole) {
  ONCE_ASSERT(whole.kind != BodyDecoder::Kind::bad);
  const bool until_close = framing.kind == Framing::Kind::until_close;
  const std::size_t size = until_close ? stream.size() : std::min<std::size_t>(stream.size(), framing.length);
  ONCE_ASSERT(whole.data == stream.substr(0, size) && whole.consumed == size);
  ONCE_ASSERT(whole.may_end == (until_close || size == framing.length));
}

void check_chunked(const Framing& framing, std::string_view stream, const Decoded& whole) {
  ONCE_ASSERT(whole.may_end == (whole.kind == BodyDecoder::Kind::end));
  if (whole.kind == BodyDecoder::Kind::end) {
    const std::string_view taken = stream.substr(0, whole.consumed);
    ONCE_ASSERT(taken.ends_with("\r\n\r\n"));
    ONCE_ASSERT(decode(framing, taken, taken.size(), 1) == whole);
    ONCE_ASSERT(!decode(framing, taken.substr(0, taken.size() - 1), taken.size(), 1).may_end);
  }
  // Malformed is for good.
  if (whole.kind == BodyDecoder::Kind::bad) {
    const std::string more = std::string(stream) + "\r\n0\r\n\r\n";
    ONCE_ASSERT(decode(framing, more, more.size(), 1).kind == BodyDecoder::Kind::bad);
  }
  // What we would send on.
  const std::string again = in_chunks(whole.data, 1 + stream.size() / 3);
  const Decoded same = decode(framing, again, 7, 1);
  ONCE_ASSERT(same.kind == BodyDecoder::Kind::end && same.data == whole.data && same.consumed == again.size());
}

}  // namespace

FUZZ(bytes) {
  once::fuzz::Input input(bytes);
  const auto kind = input.number<char>();
  const auto seed = input.number<std::uint8_t>();
  const std::string_view stream = input.rest();
  Framing framing{.kind = Framing::Kind::until_close};
  if (kind == 'c') framing.kind = Framing::Kind::chunked;
  if (kind == 'l') framing = {.kind = Framing::Kind::length, .length = seed};

  const Decoded whole = decode(framing, stream, stream.size() + 1, seed);
  ONCE_ASSERT(whole.consumed <= stream.size() && whole.data.size() <= whole.consumed);
  for (const std::size_t largest : {1U, 3U, 64U}) {
    const Decoded pieces = decode(framing, stream, largest, seed);
    ONCE_ASSERT(pieces.kind == whole.kind && pieces.data == whole.data && pieces.may_end == whole.may_end);
    // Malformed bytes are left where they are, as far as they were looked at.
    if (whole.kind == BodyDecoder::Kind::end) ONCE_ASSERT(pieces.consumed == whole.consumed);
  }
  kind == 'c' ? check_chunked(framing, stream, whole) : check_plain(framing, stream, whole);
}
