// One connection to a Redis server, plain or TLS. Commands are collected and sent together; replies are read in the
// same order. No call waits past its deadline. A link that returned an error is broken and must be dropped.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "store/redis/options.hpp"
#include "store/redis/reply.hpp"
#include "store/redis/tls.hpp"

namespace once::redis {

class Deadline {
 public:
  static Deadline after(Duration time);
  static Deadline at(std::chrono::nanoseconds when) { return Deadline(when); }  // a time of monotonic_now()
  std::chrono::nanoseconds when() const { return at_; }
  // The earlier of this deadline and `time` from now.
  Deadline within(Duration time) const { return Deadline(std::min(at_, after(time).at_)); }
  bool passed() const { return monotonic_now() >= at_; }
  // For poll(2): zero once the deadline has passed.
  int milliseconds_left() const;
  // A deadline after a part of the remaining time.
  Deadline fraction(std::size_t parts) const;

 private:
  explicit Deadline(std::chrono::nanoseconds at) : at_(at) {}
  std::chrono::nanoseconds at_;
};

class Link {
 public:
  // `tls` null: plain. An error with Retryable::no is permanent.
  static Result<std::unique_ptr<Link>> connect(const StoreHost& host, SSL_CTX* tls, Deadline deadline);

  // Append here with append_command(), then send().
  std::string& commands() { return commands_; }
  // For a command that can wait for the next send and whose reply is ignored.
  std::string& later() {
    ++later_count_;
    return later_;
  }
  // Puts the commands of later() before the next ones. Returns how many replies to skip.
  std::size_t append_later();
  // Sends as much as possible without blocking; reply() sends the rest.
  Result<void> send();
  // Whether the server may have seen any of the last commands.
  bool anything_sent() const { return sent_ > 0; }
  // The next reply. After the deadline it still returns a reply that has already arrived.
  Result<Reply> reply(Deadline deadline);
  // The next reply if it has already arrived.
  Result<std::optional<Reply>> reply_if_any();

  // For an idle link: whether the server has neither closed it nor sent anything.
  bool quiet() const;
  int descriptor() const { return socket_.get(); }
  const std::string& name() const { return name_; }

 private:
  struct FreeReader {
    void operator()(redisReader* reader) const { redisReaderFree(reader); }
  };

  Link(std::string name, Descriptor socket);
  Result<void> shake_hands(SSL_CTX& context, const std::string& host, Deadline deadline);
  // Waits until something can be read, or written if there is something to write.
  Result<void> wait(Deadline deadline);
  Result<void> write_some();
  Result<void> read_some();
  // Reads from the socket into in_. Zero: nothing to read.
  Result<std::size_t> receive();
  Result<std::optional<Reply>> parsed();
  std::unexpected<Error> lost(std::string_view why) const;

  std::string name_;
  Descriptor socket_;
  std::unique_ptr<Tls> tls_;
  redisReplyObjectFunctions functions_{};  // of reader_
  std::unique_ptr<redisReader, FreeReader> reader_;
  std::string commands_;
  std::string later_;
  std::size_t later_count_ = 0;
  std::string wire_;  // being sent, from sent_ on
  std::size_t sent_ = 0;
  std::string in_;
};

}  // namespace once::redis
