// Finds the end of a body and removes its framing. It works on a connection's buffer and never reads by itself. The
// chunked syntax is parsed as strictly as heads. Trailers are checked and dropped, and so is the Trailer field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "http/buffer.hpp"
#include "http/head.hpp"

namespace once::http {

class BodyDecoder {
 public:
  BodyDecoder() = default;
  explicit BodyDecoder(const Framing& framing);

  enum class Kind : std::uint8_t {
    data,       // some bytes, valid until the buffer is read into again
    need_more,  // read into the buffer or, at the end of the stream, call end_of_stream()
    end,        // the whole body was returned
    bad,        // malformed
  };
  struct Step {
    Kind kind;
    std::string_view data;
  };

  // Returns the next part of the body in the buffer and consumes it there.
  Step next(Buffer& buffer);

  // The peer has closed its side. True if the body may end here.
  bool end_of_stream();

  bool ended() const { return state_ == State::ended; }
  // The remaining bytes of a body with a known length.
  std::uint64_t remaining() const { return remaining_; }

 private:
  enum class State : std::uint8_t { data, size_line, chunk_data, chunk_end, trailers, ended, broken };

  Step chunked_step(Buffer& buffer);
  Step joined_step(Buffer& buffer);
  bool next_chunk_is_small(const Buffer& buffer) const;
  bool parse_size_line(std::string_view line);
  Step take(Buffer& buffer, State when_done);
  Step fail();

  Framing::Kind framing_ = Framing::Kind::none;
  State state_ = State::ended;
  std::uint64_t remaining_ = 0;
  std::size_t trailer_bytes_ = 0;
};

// Writes the size line of a chunk, hex and CRLF. Returns how many of the 18 bytes it used.
std::size_t write_chunk_size(char (&out)[18], std::uint64_t size);

inline constexpr std::string_view last_chunk = "0\r\n\r\n";

}  // namespace once::http
