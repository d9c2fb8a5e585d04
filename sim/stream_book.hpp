// What backends stream under a key and what readers get of it. The book knows the whole body of each execution, so it
// can tell from every byte that a gateway writes whether it belongs there: whatever attempt, gateway, offset and time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/history.hpp"
#include "sim/message_reader.hpp"
#include "sim/setup.hpp"

namespace once::sim {

// In responses to keyed requests: the number of the execution that gives it.
inline constexpr std::string_view execution_field = "X-Execution";

// What a client says that it has already.
struct Resume {
  std::optional<std::uint64_t> offset;
  std::optional<unsigned> event;         // of Last-Event-ID
  std::optional<std::uint64_t> attempt;  // that this is of

  bool any() const { return offset || event; }
  // As lines of a request's head.
  std::string fields() const;
};

class StreamBook {
 public:
  StreamBook(History& history, const Setup& setup) : history_(history), setup_(setup) {}
  StreamBook(const StreamBook&) = delete;
  StreamBook& operator=(const StreamBook&) = delete;

  // At the backend: this is what the execution answers if nothing goes wrong. Ends of events are positions in it.
  struct Script {
    Asked asked;
    std::string body;
    std::vector<std::size_t> events{};  // where each ends
    bool is_stream = false;             // by its type
  };
  void begins(unsigned execution, Script script);

  // At a gateway, which has written this much of a response. `fresh`: where the part begins that is new. A response
  // that names no execution is none of the book's.
  void sent(const Message& response, std::size_t fresh, const Resume& asked_for);
  // It has written the end of it.
  void sent_end(const Message& response);

  // At a client, whole or not. What it has can be resumed.
  void seen(const Asked& asked, const Message& response);
  // What a client may say of it, drawn.
  Resume draw_resume(const Asked& asked, Draw& draw) const;

  // Whether all of the body from the response's offset on is there. Empty: no execution is named.
  std::optional<bool> is_whole(const Message& response) const;
  // With what the client had before, if its response begins behind that. One that was stopped says of what it is a
  // part.
  std::string with_beginning(const Message& response) const;
  // Whether the gateway records this response as it streams.
  bool is_recorded_stream(const Message& response) const;
  // Whether it says that its caller has stopped it.
  static bool is_stopped(const Message& response);
  // Who asked for what the response gives.
  std::optional<Asked> asked_of(const Message& response) const;

  // When everything is well again, a stream whose outcome is unknown shows everything that somebody was sent of it.
  void in_the_end(const Asked& asked);

  std::uint64_t parts() const { return parts_; }
  std::uint64_t resumed() const { return resumed_; }
  std::uint64_t cut_off() const { return cut_off_; }
  std::uint64_t stopped_replays() const { return stopped_replays_; }

 private:
  struct Stream {
    Script script;
    // Bytes of the body that some gateway has sent to some client, by attempt: a claim that takes the place of another
    // one for the same execution begins without chunks.
    std::map<std::uint64_t, std::size_t> told{};
  };
  struct Has {
    unsigned execution = 0;
    std::size_t bytes = 0;
    std::optional<std::uint64_t> attempt;
  };

  const Stream* find(const Message& response) const;
  Stream* find(const Message& response);
  void check_offset(const Stream& stream, const Message& response, const Resume& asked_for);
  void check_durable(const Stream& stream, unsigned execution, std::size_t upto);
  void check_stopped(const Stream& stream, const Message& response);
  bool may_be_lost() const;
  bool may_be_unrecorded(const Stream& stream) const;
  void wrong(const Message& response, const std::string& what);

  History& history_;
  const Setup& setup_;
  std::map<unsigned, Stream> streams_;                // by execution
  std::map<std::pair<unsigned, unsigned>, Has> has_;  // by operation and caller
  std::uint64_t parts_ = 0;
  std::uint64_t resumed_ = 0;
  std::uint64_t cut_off_ = 0;
  std::uint64_t stopped_replays_ = 0;
};

}  // namespace once::sim
