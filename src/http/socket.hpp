// A non-blocking socket on a loop, plain or with TLS, and the operations that a coroutine can await. Every operation is
// tried at once and suspends only if it would block, or to give other connections a turn. Every wait has a timeout. One
// reader and one writer at a time: a second one gets `failed`, and the connection ends (fault.hpp).
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "http/loop.hpp"

namespace once::http {

// Bodies up to this size are copied after their head: sending one piece is cheaper than sending two.
inline constexpr std::size_t small_body = 4096;

enum class Io : std::uint8_t {
  ok,
  end,  // read: the peer closed its sending side; with TLS, with close_notify
  timed_out,
  failed,     // the connection is broken; with TLS also an end without close_notify, which an attacker could cause
  cancelled,  // cancel() was called
};

struct IoResult {
  Io status;
  std::size_t bytes;
};

class Socket;
class TlsStream;

// An operation that waits for a socket to become ready.
class IoWait : private Timer {
 public:
  IoWait(const IoWait&) = delete;
  IoWait& operator=(const IoWait&) = delete;

  bool await_ready();
  void await_suspend(std::coroutine_handle<> caller);

 protected:
  enum class Direction : std::uint8_t { read, write };

  IoWait(Socket& socket, Direction direction, Duration limit) : socket_(socket), direction_(direction), limit_(limit) {}
  ~IoWait() = default;

  // Tries the operation; returns whether it has a result.
  virtual bool attempt() = 0;
  // Progress was made: restarts the timeout.
  void moved();

  Socket& socket_;
  Io status_ = Io::ok;
  std::size_t bytes_ = 0;

 private:
  friend class Socket;
  IoWait*& place() const;  // the socket's waiter in this direction
  void resume();

  Direction direction_;
  Duration limit_;
  std::chrono::nanoseconds blocked_at_{};  // when the wait began, and what was done before
  std::size_t done_before_ = 0;
  std::coroutine_handle<> caller_;
};

// Reads the bytes that are available, at least one.
class ReadSome final : public IoWait {
 public:
  ReadSome(Socket& socket, std::span<char> room, Duration limit)
      : IoWait(socket, Direction::read, limit), room_(room) {}
  IoResult await_resume() const { return {status_, bytes_}; }

 private:
  bool attempt() override;
  bool attempt_secure();
  std::span<char> room_;
};

// Writes all bytes, in up to four pieces. `bytes` says how many were sent, whatever the result: with 0 the peer cannot
// have seen any. The timeout applies while the peer accepts nothing. With a minimum rate, the peer must also keep up
// with that once the timeout has passed.
//
// With TLS, only whole records count as sent. A peer cannot use a partial record, but OpenSSL keeps the rest of it and
// would send it with the next write or with close_notify: bytes reported as unsent would still arrive. So a write that
// gives up in the middle of a record mutes the stream for good.
class WriteAll final : public IoWait {
 public:
  static constexpr std::size_t max_pieces = 4;

  using Pieces = std::array<std::string_view, max_pieces>;

  WriteAll(Socket& socket, const Pieces& pieces, Duration limit);
  IoResult await_resume();

 private:
  bool attempt() override;
  bool attempt_secure();
  void advance(std::size_t sent);
  std::array<iovec, max_pieces> pieces_{};
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

// Waits for a connection attempt to end.
class Connected final : public IoWait {
 public:
  Connected(Socket& socket, Duration limit) : IoWait(socket, Direction::write, limit) {}
  Io await_resume() const { return status_; }

 private:
  bool attempt() override;
};

// Performs a TLS handshake. The timeout is for all of it.
class Handshake final : public IoWait {
 public:
  Handshake(Socket& socket, Duration limit) : IoWait(socket, Direction::read, limit) {}
  Io await_resume() const { return status_; }

 private:
  bool attempt() override;
};

// Like shut_down_writing(), but waits for a slow reader.
class EndWriting final : public IoWait {
 public:
  EndWriting(Socket& socket, Duration limit) : IoWait(socket, Direction::write, limit) {}
  void await_resume() const {}

 private:
  bool attempt() override;
};

// Waits until bytes or the end of the stream can be read. Consumes nothing.
class Readable final : public IoWait {
 public:
  Readable(Socket& socket, Duration limit) : IoWait(socket, Direction::read, limit) {}
  Io await_resume() const { return status_; }

 private:
  bool attempt() override;
};

// Peeks at the unread bytes once there are more than before. Consumes nothing. `end`: no more will come. Not with TLS.
class PeekMore final : public IoWait {
 public:
  PeekMore(Socket& socket, std::span<char> room, std::size_t seen, Duration limit)
      : IoWait(socket, Direction::read, limit), room_(room), seen_(seen) {}
  IoResult await_resume() const { return {status_, bytes_}; }

 private:
  bool attempt() override;
  std::span<char> room_;
  std::size_t seen_;
};

class Socket final : public Pollable {
 public:
  // Takes ownership of the descriptor, which must be non-blocking.
  Socket(Loop& loop, int fd);
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  ReadSome read_some(std::span<char> room, Duration limit) { return {*this, room, limit}; }
  // Reads the bytes that have already arrived; 0: none, or an error that the next read reports.
  std::size_t read_ready(std::span<char> room);
  WriteAll write_all(std::string_view bytes, Duration limit) { return {*this, WriteAll::Pieces{bytes}, limit}; }
  WriteAll write_all(std::string_view first, std::string_view second, Duration limit) {
    return {*this, WriteAll::Pieces{first, second}, limit};
  }
  WriteAll write_all(const WriteAll::Pieces& pieces, Duration limit) { return {*this, pieces, limit}; }
  Connected connected(Duration limit) { return {*this, limit}; }
  Readable readable(Duration limit) { return {*this, limit}; }
  PeekMore peek_more(std::span<char> room, std::size_t seen, Duration limit) { return {*this, room, seen, limit}; }

  // Switches to TLS. A handshake comes first.
  void secure(std::unique_ptr<TlsStream> tls);
  // Switches back to plain bytes, for a peer that does not speak TLS.
  void make_plain();
  Handshake handshake(Duration limit) { return {*this, limit}; }
  // Null: plain.
  const TlsStream* tls() const { return tls_.get(); }

  // Waiting operations resume with `cancelled` on the loop's next turn, and later ones are cancelled too, until
  // restore().
  void cancel();
  void restore();

  // Bytes per second that the peer must accept while a write waits; 0: only the timeout applies.
  void set_least_rate(std::size_t rate) { least_rate_ = rate; }
  // Bytes written so far; with TLS, encrypted ones.
  std::uint64_t written() const { return written_; }
  // How far the peer is behind `rate` bytes per second in the current write: the time waited, less the time that the
  // bytes it accepted would take at that rate. Zero: no write waits, or the peer is fast enough.
  std::chrono::nanoseconds write_debt(std::chrono::nanoseconds::rep rate) const;
  // The last write failed because the peer was too slow.
  bool write_timed_out() const { return write_timed_out_; }

  // Watches the read side in the background: reports once that the peer sent bytes, closed its side or is gone. Makes
  // no system calls until something happens. If something already has, returns it and watches nothing.
  enum class Peer : std::uint8_t { bytes, end, gone };
  class Watcher {
   public:
    // May cancel sockets, may not destroy this one.
    virtual void peer_moved(Peer what) = 0;

   protected:
    ~Watcher() = default;
  };
  std::optional<Peer> watch(Watcher& watcher);
  // Watches for the peer's close, also behind unread bytes: reports `end` and `gone`, until unwatch_end(). Returns what
  // was seen before.
  std::optional<Peer> watch_end(Watcher& watcher);
  void unwatch_end() { end_watcher_ = nullptr; }
  // The peer's state as far as known.
  std::optional<Peer> peer_now() { return may_read_ ? look() : std::nullopt; }
  void unwatch() { watcher_ = nullptr; }

  // For an idle connection: asks the kernel whether it is open and has nothing to read.
  bool quiet();
  // The same from the events seen so far, without a system call.
  bool disturbed() { return peer_ended_ || (may_read_ && (tls_ == nullptr || !quiet())); }

  // On a listener: a new connection, or -1 with errno. After EAGAIN, readable() waits for the next one. The peer's
  // address is returned here because the system no longer knows it once the peer has reset the connection, although
  // there may be a request to read.
  struct Accepted {
    int fd = -1;
    sockaddr_storage peer{};
  };
  Accepted accept();

  // Closes the write side. With TLS, close_notify is sent only if that does not block; otherwise the peer sees a
  // truncated stream.
  void shut_down_writing();
  EndWriting end_writing(Duration limit) { return {*this, limit}; }
  // Releases the descriptor, for another socket on any loop. Nothing may wait on this socket, which cannot be used any
  // more.
  int release();
  // Whether the peer has closed its sending side, according to events.
  bool peer_ended() const { return peer_ended_; }
  // Closes the descriptor at once. Waiting operations resume with `cancelled` in the loop's next round, and the socket
  // cannot be used any more.
  void hang_up();
  bool hung_up() const { return fd_ < 0; }
  // Closing will reset the connection, so that the peer cannot mistake a truncated message for a complete one. Until
  // then shut_down_writing() does nothing, and with TLS no close_notify is sent.
  void reset_on_close();
  // Undoes reset_on_close(). Not with TLS, where a close without close_notify is visible anyway.
  void end_on_close();
  bool resets() const { return resets_; }
  Loop& loop() const { return loop_; }

 private:
  friend class IoWait;
  friend class ReadSome;
  friend class WriteAll;
  friend class Connected;
  friend class EndWriting;
  friend class Handshake;
  friend class Readable;
  friend class PeekMore;

  struct WakeTimer : Timer {
    Socket* socket = nullptr;
  };

  void on_ready(std::uint32_t events) override;
  void wake_waiters();
  // Waiting operations are tried again on the loop's next turn.
  void wake_next_turn() { loop_.arm_next_turn(turn_timer_); }
  // Ends the connection: every operation fails from now on, and the peer sees a reset.
  void fail(const ConnectionFault& fault);
  Net& net() const { return loop_.net(); }
  std::optional<Peer> look();
  std::optional<Peer> look_secure();
  void close();

  Loop& loop_;
  int fd_;
  bool may_read_ = false;  // the last event of edge-triggered epoll, cleared when a read found the socket empty
  bool may_write_ = false;
  bool peer_ended_ = false;
  bool peer_gone_ = false;
  bool cancelled_ = false;
  bool faulty_ = false;
  bool resets_ = false;  // when closed
  bool write_timed_out_ = false;
  bool was_reset_ = false;  // the reset was reported: the kernel reports it once, and later reads see a clean end
  std::size_t least_rate_ = 0;
  std::uint64_t written_ = 0;
  IoWait* reader_ = nullptr;
  IoWait* writer_ = nullptr;
  Watcher* watcher_ = nullptr;
  Watcher* end_watcher_ = nullptr;
  WakeTimer cancel_timer_;
  WakeTimer turn_timer_;
  std::unique_ptr<TlsStream> tls_;
};

}  // namespace once::http
