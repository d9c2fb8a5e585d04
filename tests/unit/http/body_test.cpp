// Bodies without their framing, however the bytes arrive.
#include "http/body.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace once::http::body_test {

using Kind = BodyDecoder::Kind;

// What connections keep free behind a head, at the least.
constexpr std::size_t body_window = 4096;

struct Decoded {
  Kind end = Kind::need_more;
  std::string body = {};
  std::string left = {};  // bytes behind the body
};

// Feeds the wire bytes in pieces; the last piece is whatever is left.
Decoded decode(const Framing& framing, std::string_view wire, const std::vector<std::size_t>& pieces,
               std::size_t capacity = body_window) {
  BodyDecoder decoder(framing);
  Buffer buffer;
  buffer.grow(capacity);
  Decoded decoded;
  std::size_t piece = 0;
  while (true) {
    const BodyDecoder::Step step = decoder.next(buffer);
    if (step.kind == Kind::data) {
      EXPECT_FALSE(step.data.empty());
      decoded.body.append(step.data);
      continue;
    }
    decoded.end = step.kind;
    EXPECT_EQ(decoder.ended(), step.kind == Kind::end);
    if (step.kind != Kind::need_more || wire.empty()) break;
    const std::span<char> room = buffer.room();
    EXPECT_FALSE(room.empty()) << "asked for more with nowhere to put it";
    if (room.empty()) break;
    const std::size_t wanted = piece < pieces.size() ? std::max<std::size_t>(pieces[piece++], 1) : wire.size();
    const std::size_t size = std::min({wanted, wire.size(), room.size()});
    std::ranges::copy(wire.substr(0, size), room.begin());
    buffer.commit(size);
    wire.remove_prefix(size);
  }
  decoded.left = std::string(buffer.unread()).append(wire);
  return decoded;
}

const Framing chunked{.kind = Framing::Kind::chunked};

Framing length(std::size_t size) {
  return {.kind = Framing::Kind::length, .length = size};
}

std::string chunk(std::string_view data, std::string_view extension = "") {
  char size[18];
  const std::size_t digits = write_chunk_size(size, data.size());
  return std::string(size, digits - 2).append(extension).append("\r\n").append(data).append("\r\n");
}

std::vector<std::size_t> drawn_pieces() {
  return *rc::gen::container<std::vector<std::size_t>>(
      rc::gen::oneOf(rc::gen::inRange<std::size_t>(1, 4), rc::gen::inRange<std::size_t>(1, 5000)));
}

std::string drawn_body() {
  const auto size = *rc::gen::oneOf(rc::gen::inRange(0, 20), rc::gen::inRange(0, 20'000));
  const std::string seed = *rc::gen::arbitrary<std::string>();
  std::string body = seed;
  while (body.size() < static_cast<std::size_t>(size)) body.append("\r\n0\r\n\r\nabc").append(seed);
  body.resize(static_cast<std::size_t>(size));
  return body;
}

RC_GTEST_PROP(BodyProperty, any_chunking_in_any_pieces_gives_the_body_back, ()) {
  const std::string body = drawn_body();
  std::string wire;
  for (std::string_view rest = body; !rest.empty();) {
    const auto size = *rc::gen::oneOf(rc::gen::inRange<std::size_t>(1, rest.size() + 1), rc::gen::just(rest.size()));
    wire += chunk(rest.substr(0, size), *rc::gen::element<std::string>("", "", ";a", ";a=\"b c\""));
    rest.remove_prefix(size);
  }
  wire += *rc::gen::element<std::string>("0\r\n\r\n", "000\r\n\r\n", "0;x\r\n\r\n", "0\r\nA: b\r\nC:\r\n\r\n");
  const std::string next = "GET / HTTP/1.1\r\n";
  const Decoded decoded = decode(chunked, wire + next, drawn_pieces());
  RC_ASSERT(decoded.end == Kind::end);
  RC_ASSERT(decoded.body == body);
  RC_ASSERT(decoded.left == next);
}

RC_GTEST_PROP(BodyProperty, a_length_is_kept_to_in_any_pieces, ()) {
  const std::string body = drawn_body();
  const Decoded decoded = decode(length(body.size()), body + "next", drawn_pieces());
  RC_ASSERT(decoded.end == Kind::end);
  RC_ASSERT(decoded.body == body);
  RC_ASSERT(decoded.left == "next");
}

RC_GTEST_PROP(BodyProperty, what_the_end_of_the_stream_ends_is_everything, ()) {
  const std::string body = drawn_body();
  const Decoded decoded = decode({.kind = Framing::Kind::until_close}, body, drawn_pieces());
  RC_ASSERT(decoded.end == Kind::need_more);
  RC_ASSERT(decoded.body == body);
}

RC_GTEST_PROP(BodyProperty, any_bytes_are_safe_and_never_fill_the_window, (const std::string& start)) {
  std::string wire = start;
  while (wire.size() < 3 * body_window && *rc::gen::inRange(0, 4) > 0) {
    wire += *rc::gen::element<std::string>("0\r\n", "1\r\na\r\n", "a: b\r\n", std::string(3000, '0'),
                                           std::string(3000, 'a'), ";" + std::string(200, 'x'), "f\r\n", "\r", "\n");
  }
  decode(chunked, wire, drawn_pieces());
}

struct Malformed {
  std::string_view what;
  std::string wire;
};

std::vector<Malformed> malformed_chunks() {
  return {
      {"no size", "\r\nabc\r\n0\r\n\r\n"},
      {"not hex", "g\r\nabc\r\n0\r\n\r\n"},
      {"a prefix", "0x3\r\nabc\r\n0\r\n\r\n"},
      {"a sign", "+3\r\nabc\r\n0\r\n\r\n"},
      {"a negative size", "-3\r\nabc\r\n0\r\n\r\n"},
      {"a blank before", " 3\r\nabc\r\n0\r\n\r\n"},
      {"a blank after", "3 \r\nabc\r\n0\r\n\r\n"},
      {"a blank before the extension", "3 ;a\r\nabc\r\n0\r\n\r\n"},
      {"a blank behind the semicolon", "3; a\r\nabc\r\n0\r\n\r\n"},
      {"a blank before the equals sign", "3;a =b\r\nabc\r\n0\r\n\r\n"},
      {"an empty extension", "3;\r\nabc\r\n0\r\n\r\n"},
      {"an empty extension at the end", "3;a;\r\nabc\r\n0\r\n\r\n"},
      {"an extension without a value", "3;a=\r\nabc\r\n0\r\n\r\n"},
      {"an open quote in the extension", "3;a=\"b\r\nabc\r\n0\r\n\r\n"},
      {"a control character in the extension", "3;\x01\r\nabc\r\n0\r\n\r\n"},
      {"too large a size", "1000000000000000\r\nabc\r\n0\r\n\r\n"},
      {"a size that overflows", "10000000000000003\r\nabc\r\n0\r\n\r\n"},
      {"bare LF after the size", "3\nabc\r\n0\r\n\r\n"},
      {"bare CR after the size", "3\rabc\r\n0\r\n\r\n"},
      {"bare LF in the extension", "3;a\nb\r\nabc\r\n0\r\n\r\n"},
      {"more data than said", "3\r\nabcd\r\n0\r\n\r\n"},
      {"less data than said", "3\r\nab\r\n0\r\n\r\n"},
      {"bare LF after the data", "3\r\nabc\n0\r\n\r\n"},
      {"bare CR after the data", "3\r\nabc\r0\r\n\r\n"},
      {"other bytes where the line end should be", "3\r\nabcxy0\r\n\r\n"},
      {"half a line end after the data", "3\r\nabc\rx0\r\n\r\n"},
      {"no line end after the data", "3\r\nabc0\r\n\r\n"},
      {"bare LF at the end", "0\r\n\n"},
      {"bare CR at the end", "0\r\n\rx"},
      {"a trailer without a colon", "0\r\nabc\r\n\r\n"},
      {"a trailer without a name", "0\r\n: b\r\n\r\n"},
      {"a folded trailer", "0\r\nA: b\r\n c\r\n\r\n"},
      {"a blank before the colon of a trailer", "0\r\nA : b\r\n\r\n"},
      {"a blank in the name of a trailer", "0\r\nA B: b\r\n\r\n"},
      {"a control character in a trailer", std::string("0\r\nA: \0\r\n\r\n", 11)},
      {"bare LF in a trailer", "0\r\nA: b\nC: d\r\n\r\n"},
      {"a trailer that never ends", "0\r\nA: " + std::string(9000, 'a') + "\r\n\r\n"},
      {"a size line that never ends", "3;" + std::string(9000, 'a') + "\r\nabc\r\n0\r\n\r\n"},
      {"trailers without end",
       [] {
         std::string wire = "0\r\n";
         for (int i = 0; i < 2000; ++i) wire += "A: b\r\n";
         return wire + "\r\n";
       }()},
  };
}

TEST(BodyTest, small_chunks_that_are_here_are_handed_out_as_one) {
  const std::string wire = "1\r\na\r\n1;x\r\nb\r\n2\r\ncd\r\n0\r\n\r\n";
  BodyDecoder decoder(Framing{.kind = Framing::Kind::chunked});
  Buffer buffer;
  buffer.grow(wire.size());
  wire.copy(buffer.room().data(), wire.size());
  buffer.commit(wire.size());
  const BodyDecoder::Step step = decoder.next(buffer);
  EXPECT_EQ(step.kind, BodyDecoder::Kind::data);
  EXPECT_EQ(step.data, "abcd");
  EXPECT_EQ(decoder.next(buffer).kind, BodyDecoder::Kind::end);
  EXPECT_TRUE(buffer.empty());
}

TEST(BodyTest, malformed_chunks_are_refused_wherever_the_reads_are_split) {
  for (const auto& [what, wire] : malformed_chunks()) {
    const std::size_t splits = std::min<std::size_t>(wire.size(), 60);
    for (std::size_t first = 1; first <= splits; ++first) {
      for (const std::vector<std::size_t>& pieces :
           {std::vector<std::size_t>{first}, std::vector<std::size_t>{first, 1, 1, 1, 1}}) {
        EXPECT_EQ(decode(chunked, wire, pieces).end, Kind::bad) << what << ", split at " << first;
      }
    }
    EXPECT_EQ(decode(chunked, wire, std::vector<std::size_t>(wire.size(), 1)).end, Kind::bad) << what;
  }
}

TEST(BodyTest, what_is_broken_stays_broken) {
  BodyDecoder decoder(chunked);
  Buffer buffer;
  buffer.grow(64);
  std::ranges::copy(std::string_view("x\r\n"), buffer.room().begin());
  buffer.commit(3);
  EXPECT_EQ(decoder.next(buffer).kind, Kind::bad);
  EXPECT_EQ(decoder.next(buffer).kind, Kind::bad);
  EXPECT_FALSE(decoder.ended());
  EXPECT_FALSE(decoder.end_of_stream());
}

TEST(BodyTest, a_body_cut_off_anywhere_is_not_a_body) {
  const std::string wire = chunk("abc") + chunk("d", ";x") + "0\r\nA: b\r\n\r\n";
  for (std::size_t size = 0; size < wire.size(); ++size) {
    BodyDecoder decoder(chunked);
    Buffer buffer;
    buffer.grow(wire.size());
    std::ranges::copy(wire.substr(0, size), buffer.room().begin());
    buffer.commit(size);
    BodyDecoder::Step step = decoder.next(buffer);
    while (step.kind == Kind::data) step = decoder.next(buffer);
    ASSERT_EQ(step.kind, Kind::need_more) << size;
    EXPECT_FALSE(decoder.end_of_stream()) << size;
  }
}

TEST(BodyTest, the_end_of_the_stream_ends_only_what_it_may_end) {
  BodyDecoder none(Framing{});
  EXPECT_TRUE(none.ended());
  EXPECT_TRUE(none.end_of_stream());
  BodyDecoder empty(length(0));
  EXPECT_TRUE(empty.ended());
  BodyDecoder some(length(3));
  EXPECT_FALSE(some.ended());
  EXPECT_EQ(some.remaining(), 3U);
  EXPECT_FALSE(some.end_of_stream());
  BodyDecoder all(Framing{.kind = Framing::Kind::until_close});
  EXPECT_FALSE(all.ended());
  EXPECT_TRUE(all.end_of_stream());
  Buffer buffer;
  EXPECT_EQ(all.next(buffer).kind, Kind::end);
}

TEST(BodyTest, a_chunk_may_be_as_large_as_fifteen_digits_say) {
  BodyDecoder decoder(chunked);
  Buffer buffer;
  buffer.grow(64);
  const std::string_view wire = "fffffffffffffff\r\na";
  std::ranges::copy(wire, buffer.room().begin());
  buffer.commit(wire.size());
  EXPECT_EQ(decoder.next(buffer).data, "a");
  EXPECT_EQ(decoder.remaining(), 0xfffffffffffffffU - 1);
}

RC_GTEST_PROP(BodyProperty, a_chunk_size_is_read_as_it_was_written, ()) {
  const auto size = *rc::gen::arbitrary<std::uint64_t>() >> *rc::gen::inRange(0, 64);
  char text[18];
  const std::size_t written = write_chunk_size(text, size);
  RC_ASSERT(written >= 3U);
  RC_ASSERT(std::string_view(text, written).ends_with("\r\n"));
  RC_ASSERT(std::stoull(std::string(text, written - 2), nullptr, 16) == size);
  RC_ASSERT(size == 0 || text[0] != '0');
}

}  // namespace once::http::body_test
