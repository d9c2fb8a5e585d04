// The body of one stream over several responses: what was given to the caller, and whether another response continues
// it. No I/O. The clients for Node and Python follow the same rules; docs/guides/client.md has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/transport.hpp"
#include "once/client.hpp"

namespace once::client {

class StreamBody final : public Receiver {
 public:
  // A retry asks for the last bytes once more and compares them: those of another execution would differ.
  static constexpr std::size_t compared_bytes = 1024;

  // The caller's headers may ask for a later part: then only that part is given.
  explicit StreamBody(const Reader& reader, const std::vector<Header>& asked = {});

  void begin_try();
  Reading take_head(const Answer& head) override;
  Reading take_bytes(std::string_view bytes) override;

  // What the end of a try means for the stream.
  Happened judge(Happened happened);

  // The request's headers, so that the next response begins with bytes that are known.
  std::vector<Header> resuming(const std::vector<Header>& headers) const;

  bool has_begun() const { return status_ != 0; }
  // Since the last call: bytes were given, or this try was silent in the middle of a response.
  bool take_progress(Happened happened);

  const std::string& why() const { return why_; }  // of new_attempt
  Stopped stopped() const { return stopped_; }
  std::uint64_t received() const { return received_; }
  unsigned attempt() const { return attempt_; }

 private:
  // The response does not continue this stream: how that was seen.
  Reading differ(std::string_view how);
  bool continues(const Answer& head) const;
  // The first response begins where the caller's part ends, and is of the same attempt.
  bool is_what_was_asked_for(unsigned attempt) const;

  const Reader& reader_;
  std::string asked_offset_;  // by the caller, who has what comes before it; empty: everything is wanted
  std::string asked_attempt_;
  int status_ = 0;              // of the first response
  unsigned attempt_ = 0;        // 0: unsaid
  std::uint64_t received_ = 0;  // what the caller has
  std::string tail_;            // the last of it
  std::string why_;
  Stopped stopped_ = Stopped::no;
  bool progress_ = false;
  // Of the response of the current try, if its head has come.
  bool responding_ = false;
  std::string said_;            // Idempotency-Status
  std::uint64_t position_ = 0;  // of the next byte in the stream
};

}  // namespace once::client
