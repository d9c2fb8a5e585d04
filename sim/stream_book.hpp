// The streams of backends by key, and the bytes that readers got. The book knows the whole body of each execution, so
// it can check every byte that a gateway writes, whatever the attempt, gateway, offset and time.
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

// In responses to keyed requests: the number of the execution they come from.
inline constexpr std::string_view execution_field = "X-Execution";

// What a client claims to have already.
struct Resume {
  std::optional<std::uint64_t> offset;
  std::optional<unsigned> event;         // for Last-Event-ID
  std::optional<std::uint64_t> attempt;  // the attempt that it has a part of

  bool any() const { return offset || event; }
  // As header lines of a request.
  std::string fields() const;
};

class StreamBook {
 public:
  StreamBook(History& history, const Setup& setup) : history_(history), setup_(setup) {}
  StreamBook(const StreamBook&) = delete;
  StreamBook& operator=(const StreamBook&) = delete;

  // The response of an execution at the backend if nothing goes wrong. Ends of events are positions in it.
  struct Script {
    Asked asked;
    std::string body;
    std::vector<std::size_t> events{};  // the end of each
    bool is_stream = false;             // according to its type
  };
  void begins(unsigned execution, Script script);

  // A gateway has written this much of a response; the new part begins at `fresh`. A response without an execution
  // number is ignored.
  void sent(const Message& response, std::size_t fresh, const Resume& asked_for);
  // The gateway has written the end of the response.
  void sent_end(const Message& response);

  // A client received a response, complete or not. The client can resume after it.
  void seen(const Asked& asked, const Message& response);
  // Draws what a client may ask to resume.
  Resume draw_resume(const Asked& asked, Draw& draw) const;

  // Whether the body is complete from the response's offset on. nullopt: it has no execution number.
  std::optional<bool> is_whole(const Message& response) const;
  // The body with what the client had before, if the response continues it. A stopped response states its offset.
  std::string with_beginning(const Message& response) const;
  // Whether the gateway records this response as it streams.
  bool is_recorded_stream(const Message& response) const;
  // Whether it is marked as stopped by its caller.
  static bool is_stopped(const Message& response);
  // The request whose response this is.
  std::optional<Asked> asked_of(const Message& response) const;

  // When all faults have ended: a stream with an unknown outcome must show everything that any reader was sent.
  void check_final(const Asked& asked);

  std::uint64_t parts() const { return parts_; }
  std::uint64_t resumed() const { return resumed_; }
  std::uint64_t cut_off() const { return cut_off_; }
  std::uint64_t stopped_replays() const { return stopped_replays_; }

 private:
  struct Stream {
    Script script;
    // Bytes of the body that were sent to any client, by attempt: a claim that replaces another for the same execution
    // begins without chunks.
    std::map<std::uint64_t, std::size_t> sent_bytes{};
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
