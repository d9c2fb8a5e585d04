#include "http/body.hpp"

#include <algorithm>

#include "core/fields.hpp"

namespace once::http {

namespace {

constexpr std::size_t max_size_line = 256;      // hex digits and extensions
constexpr std::size_t max_trailer_line = 2048;  // less than the buffer space that connections keep after a head
constexpr std::size_t max_trailers = 8192;
constexpr std::size_t most_joined_data = 16384;
constexpr std::size_t small_chunk_digits = 3;  // less than 4 KiB: cheaper to move than to send separately

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_text(std::string_view line) {
  return std::ranges::all_of(line, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
  });
}

// The length of the quoted string at the start of the text; 0: there is none.
std::size_t end_of_quoted(std::string_view text) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') return i + 1;
    if (text[i] == '\\') ++i;
  }
  return 0;
}

// *( ";" name [ "=" ( token / quoted-string ) ] ), without the blanks that RFC 9112 7.1.1 tolerates around ";" and "=",
// because parsers differ on them. The text has no control characters.
bool are_extensions(std::string_view text) {
  constexpr std::string_view ends = ";=";
  while (!text.empty()) {
    if (text.front() != ';') return false;
    text.remove_prefix(1);
    const std::size_t name = std::min(text.find_first_of(ends), text.size());
    if (!is_token(text.substr(0, name))) return false;
    text.remove_prefix(name);
    if (!text.starts_with('=')) continue;
    text.remove_prefix(1);
    const bool quoted = text.starts_with('"');
    const std::size_t value = quoted ? end_of_quoted(text) : std::min(text.find(';'), text.size());
    if (value == 0 || (!quoted && !is_token(text.substr(0, value)))) return false;
    text.remove_prefix(value);
  }
  return true;
}

// A line up to its CRLF, if it is complete; a bare CR or LF, or an overlong line, is bad.
enum class ChunkLine : std::uint8_t { whole, partial, bad };

ChunkLine find_line(std::string_view bytes, std::size_t limit, std::string_view& line) {
  const std::size_t end = bytes.find_first_of("\r\n");
  if (end == std::string_view::npos) return bytes.size() > limit ? ChunkLine::bad : ChunkLine::partial;
  if (end > limit || bytes[end] == '\n') return ChunkLine::bad;
  if (end + 1 == bytes.size()) return ChunkLine::partial;
  if (bytes[end + 1] != '\n') return ChunkLine::bad;
  line = bytes.substr(0, end);
  return ChunkLine::whole;
}

}  // namespace

BodyDecoder::BodyDecoder(const Framing& framing) : framing_(framing.kind), remaining_(framing.length) {
  switch (framing.kind) {
    case Framing::Kind::none: state_ = State::ended; break;
    case Framing::Kind::length: state_ = remaining_ == 0 ? State::ended : State::data; break;
    case Framing::Kind::chunked: state_ = State::size_line; break;
    case Framing::Kind::until_close: state_ = State::data; break;
  }
}

BodyDecoder::Step BodyDecoder::fail() {
  state_ = State::broken;
  return {.kind = Kind::bad, .data = {}};
}

// Takes up to `remaining_` bytes; when none remain, the next state is `when_done`.
BodyDecoder::Step BodyDecoder::take(Buffer& buffer, State when_done) {
  const std::string_view unread = buffer.unread();
  if (unread.empty()) return {.kind = Kind::need_more, .data = {}};
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(unread.size(), remaining_));
  remaining_ -= size;
  if (remaining_ == 0) state_ = when_done;
  buffer.consume(size);
  return {.kind = Kind::data, .data = unread.substr(0, size)};
}

BodyDecoder::Step BodyDecoder::next(Buffer& buffer) {
  switch (framing_) {
    case Framing::Kind::none: return {.kind = Kind::end, .data = {}};
    case Framing::Kind::length:
      if (state_ == State::ended) return {.kind = Kind::end, .data = {}};
      return take(buffer, State::ended);
    case Framing::Kind::until_close: {
      if (state_ == State::ended) return {.kind = Kind::end, .data = {}};
      const std::string_view unread = buffer.unread();
      if (unread.empty()) return {.kind = Kind::need_more, .data = {}};
      buffer.consume(unread.size());
      return {.kind = Kind::data, .data = unread};
    }
    case Framing::Kind::chunked: return joined_step(buffer);
  }
  return fail();
}

// chunk-size [ chunk-ext ]: 1 to 16 hex digits; extensions are ignored and not forwarded.
bool BodyDecoder::parse_size_line(std::string_view line) {
  std::size_t digits = 0;
  remaining_ = 0;
  while (digits < line.size() && hex_value(line[digits]) >= 0) {
    if (digits == 15) return false;  // 15 digits cannot overflow
    remaining_ = remaining_ * 16 + static_cast<std::uint64_t>(hex_value(line[digits]));
    ++digits;
  }
  if (digits == 0) return false;
  if (digits < line.size() && (!is_text(line) || !are_extensions(line.substr(digits)))) return false;
  state_ = remaining_ == 0 ? State::trailers : State::chunk_data;
  return true;
}

BodyDecoder::Step BodyDecoder::chunked_step(Buffer& buffer) {
  while (true) {
    std::string_view line;
    switch (state_) {
      case State::size_line: {
        const ChunkLine found = find_line(buffer.unread(), max_size_line, line);
        if (found == ChunkLine::partial) return {.kind = Kind::need_more, .data = {}};
        if (found == ChunkLine::bad || !parse_size_line(line)) return fail();
        buffer.consume(line.size() + 2);
        break;
      }
      case State::chunk_data: return take(buffer, State::chunk_end);
      case State::chunk_end: {
        const std::string_view unread = buffer.unread();
        if (unread.size() < 2) {
          if (!unread.empty() && unread[0] != '\r') return fail();
          return {.kind = Kind::need_more, .data = {}};
        }
        if (!unread.starts_with("\r\n")) return fail();
        buffer.consume(2);
        state_ = State::size_line;
        break;
      }
      case State::trailers: {
        const ChunkLine found = find_line(buffer.unread(), max_trailer_line, line);
        if (found == ChunkLine::partial) return {.kind = Kind::need_more, .data = {}};
        trailer_bytes_ += line.size() + 2;
        if (found == ChunkLine::bad || trailer_bytes_ > max_trailers) return fail();
        const bool last = line.empty();
        // No colon, no name, a folded line and white space before the colon all fail here.
        const std::size_t colon = line.find(':');
        if (!last && (colon == std::string_view::npos || !is_token(line.substr(0, colon)) || !is_text(line))) {
          return fail();
        }
        buffer.consume(line.size() + 2);
        if (last) state_ = State::ended;
        break;
      }
      case State::ended: return {.kind = Kind::end, .data = {}};
      case State::data:
      case State::broken: return fail();
    }
  }
}

// Joins small chunks that have already arrived: a peer that sends single bytes must not cost a system call and an
// outgoing chunk for each.
BodyDecoder::Step BodyDecoder::joined_step(Buffer& buffer) {
  Step step = chunked_step(buffer);
  while (step.kind == Kind::data && step.data.size() < most_joined_data && next_chunk_is_small(buffer)) {
    const Step more = chunked_step(buffer);
    if (more.kind != Kind::data) break;  // the next call reports it again
    step.data = buffer.joined(step.data, more.data);
  }
  return step;
}

// After a chunk: whether the size line and some data of a small next chunk have already arrived.
bool BodyDecoder::next_chunk_is_small(const Buffer& buffer) const {
  if (state_ != State::chunk_end) return false;
  const std::string_view unread = buffer.unread();
  if (!unread.starts_with("\r\n")) return false;
  std::string_view line;
  if (find_line(unread.substr(2), max_size_line, line) != ChunkLine::whole || line.empty()) return false;
  const std::size_t digits = std::min(line.find(';'), line.size());
  const std::string_view size = line.substr(0, digits);
  const bool small = size.find_first_not_of('0') != std::string_view::npos && size.size() <= small_chunk_digits;
  return small && unread.size() > 2 + line.size() + 2;
}

bool BodyDecoder::end_of_stream() {
  if (framing_ == Framing::Kind::until_close && state_ == State::data) state_ = State::ended;
  return state_ == State::ended;
}

std::size_t write_chunk_size(char (&out)[18], std::uint64_t size) {
  static constexpr char digits[] = "0123456789abcdef";
  std::size_t length = 1;
  while (length < 16 && size >> (4 * length) != 0) ++length;
  for (std::size_t i = 0; i < length; ++i) out[i] = digits[size >> (4 * (length - 1 - i)) & 15U];
  out[length] = '\r';
  out[length + 1] = '\n';
  return length + 2;
}

}  // namespace once::http
