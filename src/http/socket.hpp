// A non-blocking socket on a loop, plain or with TLS, and what a coroutine can await of it. Every wait tries at once
// and suspends only when the kernel has nothing, or when others on the loop are to have their turn; every wait has a
// time limit. One reader and one writer at a time: a second one gets `failed`, and the connection ends (fault.hpp).
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

// Up to this size, a body is worth copying behind its head: one piece is cheaper to send than two.
inline constexpr std::size_t small_body = 4096;

enum class Io : std::uint8_t {
  ok,
  end,  // read: the peer sends no more; with TLS, it said so
  timed_out,
  failed,     // the connection is broken; with TLS also an end that the peer did not announce, which anybody can make
  cancelled,  // somebody on this loop called cancel()
};

struct IoResult {
  Io status;
  std::size_t bytes;
};

class Socket;
class TlsStream;

// Something that waits for a socket to become ready.
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

  // True when there is a result.
  virtual bool attempt() = 0;
  // Some of it is done: the limit on silence begins anew.
  void moved();

  Socket& socket_;
  Io status_ = Io::ok;
  std::size_t bytes_ = 0;

 private:
  friend class Socket;
  IoWait*& place() const;  // of the one that waits on the socket in this direction
  void finish();

  Direction direction_;
  Duration limit_;
  std::chrono::nanoseconds blocked_at_{};  // when the wait began, and what had been done before
  std::size_t done_before_ = 0;
  std::coroutine_handle<> caller_;
};

// Some bytes, as many as there are.
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

// All of the bytes, in up to four pieces. `bytes` says how many went out, whatever the end: with 0 the peer cannot have
// seen any. The limit is for each time that the peer takes nothing; with a least rate the peer must keep to it as well,
// once the limit has passed.
//
// With TLS they go out in records, and only whole records count. A peer can make nothing of a part of one, but OpenSSL
// keeps the rest and would send it with the next write, or with the end of the stream: bytes that were reported as not
// sent would arrive after all. So whoever gives up in the middle of a record mutes the stream for good.
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

// The end of a connection attempt.
class Connected final : public IoWait {
 public:
  Connected(Socket& socket, Duration limit) : IoWait(socket, Direction::write, limit) {}
  Io await_resume() const { return status_; }

 private:
  bool attempt() override;
};

// The end of a TLS handshake. The limit is for all of it.
class Handshake final : public IoWait {
 public:
  Handshake(Socket& socket, Duration limit) : IoWait(socket, Direction::read, limit) {}
  Io await_resume() const { return status_; }

 private:
  bool attempt() override;
};

// What shut_down_writing() does, but with patience for a peer that is slow to read.
class EndWriting final : public IoWait {
 public:
  EndWriting(Socket& socket, Duration limit) : IoWait(socket, Direction::write, limit) {}
  void await_resume() const {}

 private:
  bool attempt() override;
};

// Bytes or the end of the stream are there to be read; nothing is taken.
class Readable final : public IoWait {
 public:
  Readable(Socket& socket, Duration limit) : IoWait(socket, Direction::read, limit) {}
  Io await_resume() const { return status_; }

 private:
  bool attempt() override;
};

// More bytes than were seen before, from the first on; nothing is taken. `end` if no more come. Not with TLS.
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
  // Takes over the descriptor, which must be non-blocking.
  Socket(Loop& loop, int fd);
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  ReadSome read_some(std::span<char> room, Duration limit) { return {*this, room, limit}; }
  WriteAll write_all(std::string_view bytes, Duration limit) { return {*this, WriteAll::Pieces{bytes}, limit}; }
  WriteAll write_all(std::string_view first, std::string_view second, Duration limit) {
    return {*this, WriteAll::Pieces{first, second}, limit};
  }
  WriteAll write_all(const WriteAll::Pieces& pieces, Duration limit) { return {*this, pieces, limit}; }
  Connected connected(Duration limit) { return {*this, limit}; }
  Readable readable(Duration limit) { return {*this, limit}; }
  PeekMore peek_more(std::span<char> room, std::size_t seen, Duration limit) { return {*this, room, seen, limit}; }

  // From now on everything goes through this; first of all a handshake.
  void secure(std::unique_ptr<TlsStream> tls);
  // Back to plain bytes, for a peer that turned out to speak them.
  void make_plain();
  Handshake handshake(Duration limit) { return {*this, limit}; }
  // Null: plain.
  const TlsStream* tls() const { return tls_.get(); }

  // Whoever waits resumes with `cancelled`, from the loop, not from here; later waits are cancelled too, until
  // restore().
  void cancel();
  void restore();

  // Bytes a second that the peer must take while a write waits for it; 0: silence alone is limited.
  void set_least_rate(std::size_t rate) { least_rate_ = rate; }
  // Bytes so far; over TLS those that were encrypted.
  std::uint64_t written() const { return written_; }
  // How long the write at hand has waited for the peer, less the time that what the peer took since is worth at `rate`
  // bytes a second. Zero: it does not wait, or the peer is as fast as that.
  std::chrono::nanoseconds write_debt(std::chrono::nanoseconds::rep rate) const;
  // The last write was given up, because the peer took nothing or too little.
  bool write_timed_out() const { return write_timed_out_; }

  // In the background of a write: tells once when the peer sent bytes, its end of stream, or is gone. Free of system
  // calls until something happens. If something already did, that is returned and nothing is watched.
  enum class Peer : std::uint8_t { bytes, end, gone };
  class Watcher {
   public:
    // May cancel sockets, may not destroy this one.
    virtual void peer_moved(Peer what) = 0;

   protected:
    ~Watcher() = default;
  };
  std::optional<Peer> watch(Watcher& watcher);
  // What it has done by now.
  std::optional<Peer> peer_now() { return may_read_ ? look() : std::nullopt; }
  void unwatch() { watcher_ = nullptr; }

  // For a connection that rests between two requests: nothing to read and not closed, as far as the kernel knows.
  bool quiet();
  // The same, as far as the loop has heard: without asking the kernel.
  bool disturbed() { return peer_ended_ || (may_read_ && (tls_ == nullptr || !quiet())); }

  // On a listener: a new connection, or -1 with errno. After EAGAIN, readable() waits for the next. Who it is from is
  // told here: of a connection that its peer has reset, the system does not know it any more, but there may be a
  // request to read.
  struct Accepted {
    int fd = -1;
    sockaddr_storage peer{};
  };
  Accepted accept();

  // The peer is told that nothing follows. With TLS, if it takes that at once: otherwise it sees a stream that was cut.
  void shut_down_writing();
  EndWriting end_writing(Duration limit) { return {*this, limit}; }
  // The next end is not one that the peer should take for the whole: with TLS it is not announced.
  void end_unannounced();
  // The descriptor, for another socket of the same or another loop; nobody waits on this one, which is of no use now.
  int release();
  // The next close resets the connection, so that the peer cannot take what it got for a whole message. Until then
  // shut_down_writing() does nothing.
  void reset_on_close();
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
  // Whoever waits tries again on the loop's next turn.
  void wake_next_turn() { loop_.arm_next_turn(turn_timer_); }
  // Ends the connection: every wait fails from now on, and the peer sees a reset.
  void fail(const ConnectionFault& fault);
  Net& net() const { return loop_.net(); }
  std::optional<Peer> look();
  std::optional<Peer> look_secure();

  Loop& loop_;
  int fd_;
  bool may_read_ = false;  // as edge-triggered epoll last told, less what was exhausted since
  bool may_write_ = false;
  bool peer_ended_ = false;
  bool cancelled_ = false;
  bool faulty_ = false;
  bool resets_ = false;  // when it is closed
  bool write_timed_out_ = false;
  bool was_reset_ = false;  // a write was told: the kernel says it once, and reads get an end that is none
  std::size_t least_rate_ = 0;
  std::uint64_t written_ = 0;
  IoWait* reader_ = nullptr;
  IoWait* writer_ = nullptr;
  Watcher* watcher_ = nullptr;
  WakeTimer cancel_timer_;
  WakeTimer turn_timer_;
  std::unique_ptr<TlsStream> tls_;
};

}  // namespace once::http
