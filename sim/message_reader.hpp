// A strict HTTP/1.1 parser that checks what the gateway sends. It deliberately shares no code with src/http, so that a
// bug there is not repeated here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace once::sim {

struct Message {
  std::string method;  // of a request
  std::string target;
  int status = 0;  // of a response
  bool http_1_0 = false;
  std::vector<std::pair<std::string, std::string>> fields;
  std::string body;
  std::string head_text;  // as received
  enum class Framing : std::uint8_t { none, length, chunked, until_close };
  Framing framing = Framing::none;
  std::size_t length = 0;  // with framing by length

  // The first field of that name; empty if there is none.
  std::string field(std::string_view name) const;
  bool has(std::string_view name) const;
};

class MessageReader {
 public:
  enum class Of : std::uint8_t { requests, responses };
  explicit MessageReader(Of of) : of_(of) {}

  // For responses: the method of the request that is answered next.
  void expect(std::string method) { expected_.push_back(std::move(method)); }
  std::size_t expected() const { return expected_.size(); }

  void feed(std::string_view bytes);
  // The sender closed its side.
  void end();
  // What follows is not HTTP.
  void begin_tunnel();

  // The first error; everything after it is ignored.
  const std::string& problem() const { return problem_; }
  // Whether a message has begun and is incomplete.
  bool in_message() const { return state_ != State::start || !line_.empty(); }
  // Whether its head has arrived but its body has not.
  bool in_body() const { return in_body_; }
  bool in_tunnel() const { return state_ == State::tunnel; }
  const Message& message() const { return message_; }
  std::uint64_t messages() const { return messages_; }

  // Called during feed(). Interim responses have only a head.
  std::function<void(const Message&)> on_head;
  std::function<void(const Message&)> on_message;
  std::function<void(std::string_view)> on_tunnel;

 private:
  enum class State : std::uint8_t {
    start,
    fields,
    length,
    chunk_size,
    chunk,
    chunk_end,
    trailers,
    until_close,
    tunnel
  };

  void take_line();
  void start_line();
  void request_line();
  void status_line();
  bool add_field();
  void head_is_here();
  void frame_body();
  void chunk_size();
  void complete();
  void wrong(const std::string& what);

  const Of of_;
  std::deque<std::string> expected_;
  State state_ = State::start;
  std::string line_;
  Message message_;
  std::size_t left_ = 0;
  bool in_body_ = false;
  std::uint64_t messages_ = 0;
  std::string problem_;
};

}  // namespace once::sim
