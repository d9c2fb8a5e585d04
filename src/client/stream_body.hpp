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
  // A retry requests the last bytes again and compares them: another execution has other bytes.
  static constexpr std::size_t compared_bytes = 1024;

  // If the caller's headers ask for a later part, only that part is given.
  explicit StreamBody(const Reader& reader, const std::vector<Header>& asked = {});

  void begin_try();
  Reading take_head(const Answer& head) override;
  Reading take_bytes(std::string_view bytes) override;

  // What the end of a try means for the stream.
  Happened judge(Happened happened);

  // The request's headers, changed so that the next response begins with known bytes.
  std::vector<Header> resuming(const std::vector<Header>& headers) const;

  bool has_begun() const { return status_ != 0; }
  // Whether bytes were received since the last call, or this try fell silent in the middle of a response.
  bool take_progress(Happened happened);

  const std::string& why() const { return why_; }  // the reason of new_attempt
  Stopped stopped() const { return stopped_; }
  std::uint64_t received() const { return received_; }
  unsigned attempt() const { return attempt_; }

 private:
  // The response does not continue this stream, for this reason.
  Reading differ(std::string_view how);
  bool continues(const Answer& head) const;
  // Whether the first response begins where the caller's part ends, and is of the same attempt.
  bool is_what_was_asked_for(unsigned attempt) const;

  const Reader& reader_;
  std::string asked_offset_;  // the caller's own offset; empty: everything is wanted
  std::string asked_attempt_;
  int status_ = 0;              // of the first response
  unsigned attempt_ = 0;        // 0: unknown
  std::uint64_t received_ = 0;  // bytes that the caller has
  std::string tail_;            // the last of those
  std::string why_;
  Stopped stopped_ = Stopped::no;
  bool progress_ = false;
  // About the response of the current try, if its head has arrived.
  bool responding_ = false;
  std::string idempotency_status_;  // its Idempotency-Status
  std::uint64_t position_ = 0;      // the offset of its next byte in the stream
};

}  // namespace once::client
