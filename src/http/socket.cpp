#include "http/socket.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "http/net.hpp"
#include "http/tls_stream.hpp"

namespace once::http {

// Checks an invariant of a connection. If it is broken, the connection ends but not the process: see fault.hpp.
#define ONCE_HOLDS(socket, expression) \
  (static_cast<bool>(expression) || ((socket).fail({#expression, __FILE__, __LINE__}), false))

IoWait*& IoWait::place() const {
  return direction_ == Direction::read ? socket_.reader_ : socket_.writer_;
}

bool IoWait::await_ready() {
  const bool alone = ONCE_HOLDS(socket_, place() == nullptr);
  if (!alone || socket_.faulty_) {
    status_ = Io::failed;
    return true;
  }
  if (socket_.loop_.spent()) {
    socket_.wake_next_turn();
    return false;
  }
  if (!attempt()) return false;
  socket_.loop_.spend(bytes_);
  return true;
}

void IoWait::await_suspend(std::coroutine_handle<> caller) {
  caller_ = caller;
  place() = this;
  fire = [](Timer& timer) {
    auto& self = static_cast<IoWait&>(timer);
    self.status_ = Io::timed_out;
    if (self.direction_ == Direction::write) self.socket_.write_timed_out_ = true;
    self.resume();
  };
  blocked_at_ = socket_.loop_.now();
  done_before_ = bytes_;
  socket_.loop_.arm(*this, limit_);
}

void IoWait::resume() {
  place() = nullptr;
  socket_.loop_.disarm(*this);
  caller_.resume();  // `this` may be gone afterwards
}

void IoWait::moved() {
  if (!caller_) return;
  Duration limit = limit_;
  if (socket_.least_rate_ != 0) {
    // Bytes that the kernel took at once do not show the peer's speed.
    const std::size_t taken = bytes_ - done_before_;
    const Duration earned(static_cast<Duration::rep>(taken * 1000 / socket_.least_rate_));
    const auto waited = std::chrono::floor<Duration>(socket_.loop_.now() - blocked_at_);
    limit = std::clamp(limit_ + earned - waited, Duration::zero(), limit_);
  }
  socket_.loop_.arm(*this, limit);
}

std::chrono::nanoseconds Socket::write_debt(std::chrono::nanoseconds::rep rate) const {
  if (writer_ == nullptr) return {};
  const auto taken = static_cast<std::chrono::nanoseconds::rep>(writer_->bytes_ - writer_->done_before_);
  const std::chrono::nanoseconds earned = taken * (std::chrono::nanoseconds(std::chrono::seconds(1)) / rate);
  return std::max(std::chrono::nanoseconds{}, loop_.now() - writer_->blocked_at_ - earned);
}

bool ReadSome::attempt() {
  if (socket_.cancelled_) {
    status_ = Io::cancelled;
    return true;
  }
  if (!ONCE_HOLDS(socket_, !room_.empty())) {
    status_ = Io::failed;
    return true;
  }
  if (!socket_.may_read_) return false;
  if (socket_.tls_ != nullptr) return attempt_secure();
  while (true) {
    const ssize_t got = socket_.net().receive(socket_.fd_, room_);
    if (got > 0) {
      bytes_ = static_cast<std::size_t>(got);
      // A short read has emptied the socket: an event will announce more bytes.
      if (bytes_ < room_.size() && !socket_.peer_ended_) socket_.may_read_ = false;
      return true;
    }
    if (got == 0) {
      status_ = socket_.was_reset_ ? Io::failed : Io::end;
      return true;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) {
      socket_.may_read_ = false;
      return false;
    }
    status_ = Io::failed;
    return true;
  }
}

// Bytes taken from the kernel may still be in OpenSSL's buffers, for which no event comes: may_read_ stays set until
// OpenSSL has none left. It may also have to write first; that is retried with every event.
bool ReadSome::attempt_secure() {
  TlsStream& tls = *socket_.tls_;
  const TlsStream::Moved got = tls.read(room_);
  switch (got.step) {
    case TlsStream::Step::ok:
      bytes_ = got.bytes;
      if (tls.drained()) socket_.may_read_ = false;
      return true;
    case TlsStream::Step::wait:
      if (tls.starved()) socket_.may_read_ = false;
      return false;
    case TlsStream::Step::end: status_ = Io::end; return true;
    case TlsStream::Step::failed: status_ = Io::failed; return true;
  }
  return true;
}

std::size_t Socket::read_ready(std::span<char> room) {
  if (!may_read_ || cancelled_ || faulty_ || reader_ != nullptr || room.empty() || loop_.spent()) return 0;
  ReadSome read(*this, room, {});
  IoWait& wait = read;
  if (!wait.attempt()) return 0;
  const IoResult got = read.await_resume();
  if (got.status == Io::failed) was_reset_ = true;
  loop_.spend(got.bytes);
  return got.bytes;
}

WriteAll::WriteAll(Socket& socket, const Pieces& pieces, Duration limit) : IoWait(socket, Direction::write, limit) {
  socket.write_timed_out_ = false;
  for (const std::string_view piece : pieces) {
    if (piece.empty()) continue;
    pieces_[count_].iov_base = const_cast<char*>(piece.data());
    pieces_[count_].iov_len = piece.size();
    ++count_;
  }
}

bool WriteAll::attempt() {
  if (socket_.cancelled_) {
    status_ = Io::cancelled;
    return true;
  }
  if (socket_.tls_ != nullptr) return attempt_secure();
  const std::size_t before = bytes_;
  while (first_ < count_) {
    if (bytes_ - before >= most_bytes_at_once) {
      socket_.wake_next_turn();
      return false;
    }
    const ssize_t sent = socket_.net().send(socket_.fd_, std::span(pieces_).subspan(first_, count_ - first_));
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return false;
      if (errno == ECONNRESET) socket_.was_reset_ = true;
      status_ = Io::failed;
      return true;
    }
    advance(static_cast<std::size_t>(sent));
  }
  return true;
}

void WriteAll::advance(std::size_t sent) {
  bytes_ += sent;
  socket_.written_ += sent;
  moved();
  while (first_ < count_ && sent >= pieces_[first_].iov_len) sent -= pieces_[first_++].iov_len;
  if (first_ < count_) {
    pieces_[first_].iov_base = static_cast<char*>(pieces_[first_].iov_base) + sent;
    pieces_[first_].iov_len -= sent;
  }
}

bool WriteAll::attempt_secure() {
  TlsStream& tls = *socket_.tls_;
  const std::size_t before = bytes_;
  while (first_ < count_) {
    if (bytes_ - before >= most_bytes_at_once) {
      socket_.wake_next_turn();
      return false;
    }
    const TlsStream::Moved sent = tls.write(std::span(pieces_).subspan(first_, count_ - first_));
    if (sent.step == TlsStream::Step::wait) {
      if (tls.moved()) moved();
      return false;
    }
    if (sent.step != TlsStream::Step::ok) {
      status_ = Io::failed;
      return true;
    }
    advance(sent.bytes);
  }
  return true;
}

IoResult WriteAll::await_resume() {
  if (socket_.tls_ != nullptr && status_ != Io::ok && (status_ == Io::failed || socket_.tls_->writing())) {
    socket_.tls_->mute();
  }
  return {status_, bytes_};
}

bool Handshake::attempt() {
  if (socket_.cancelled_) {
    status_ = Io::cancelled;
    return true;
  }
  const TlsStream::Step step = socket_.tls_->handshake();
  if (step == TlsStream::Step::wait) return false;
  if (step != TlsStream::Step::ok) status_ = Io::failed;
  socket_.may_read_ = true;  // more may have arrived with it
  return true;
}

bool EndWriting::attempt() {
  const bool waits = !socket_.cancelled_ && socket_.tls_ != nullptr && socket_.tls_->end() == TlsStream::Step::wait;
  if (waits) return false;
  socket_.shut_down_writing();
  return true;
}

bool Connected::attempt() {
  if (socket_.cancelled_) {
    status_ = Io::cancelled;
    return true;
  }
  if (!socket_.may_write_) return false;
  if (socket_.net().take_error(socket_.fd_) != 0) status_ = Io::failed;
  return true;
}

bool Readable::attempt() {
  if (socket_.cancelled_) {
    status_ = Io::cancelled;
    return true;
  }
  return socket_.may_read_;
}

bool PeekMore::attempt() {
  if (socket_.cancelled_) {
    status_ = Io::cancelled;
    return true;
  }
  while (socket_.may_read_) {
    const ssize_t got = socket_.net().peek(socket_.fd_, room_);
    if (got > 0 && static_cast<std::size_t>(got) > seen_) {
      bytes_ = static_cast<std::size_t>(got);
      return true;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got == 0 || (got > 0 && socket_.peer_ended_)) {
      status_ = Io::end;
      return true;
    }
    if (got < 0 && errno != EAGAIN) {
      status_ = Io::failed;
      return true;
    }
    socket_.may_read_ = false;  // an event will announce more bytes
  }
  return false;
}

Socket::Socket(Loop& loop, int fd) : loop_(loop), fd_(fd) {
  cancel_timer_.socket = turn_timer_.socket = this;
  cancel_timer_.fire = [](Timer& timer) { static_cast<WakeTimer&>(timer).socket->wake_waiters(); };
  turn_timer_.fire = cancel_timer_.fire;
  const bool watched = loop_.add(fd_, *this);
  if (!ONCE_HOLDS(*this, watched)) peer_ended_ = true;
}

Socket::~Socket() {
  // The waiting coroutine uses this socket and cannot be resumed any more: leave it suspended.
  if (!ONCE_HOLDS(*this, reader_ == nullptr && writer_ == nullptr)) {
    if (reader_ != nullptr) loop_.disarm(*reader_);
    if (writer_ != nullptr) loop_.disarm(*writer_);
  }
  loop_.disarm(cancel_timer_);
  loop_.disarm(turn_timer_);
  close();
}

void Socket::close() {
  if (fd_ < 0) return;
  loop_.forget(fd_, *this);
  if (tls_ != nullptr) tls_->end();
  net().close(std::exchange(fd_, -1));
}

void Socket::hang_up() {
  if (writer_ != nullptr) reset_on_close();  // half a message must not look like a whole one
  if (tls_ != nullptr) tls_->mute();
  close();
  cancel();
  may_read_ = peer_ended_ = peer_gone_ = true;
  if (watcher_ != nullptr) std::exchange(watcher_, nullptr)->peer_moved(Peer::gone);
}

int Socket::release() {
  loop_.forget(fd_, *this);
  return std::exchange(fd_, -1);
}

void Socket::wake_waiters() {
  // The coroutine that is resumed may destroy this socket, unless the other direction still waits on it.
  const bool reader_waits = reader_ != nullptr;
  if (writer_ != nullptr && (may_write_ || cancelled_) && writer_->attempt()) {
    writer_->resume();
    if (!reader_waits) return;
  }
  if (reader_ != nullptr && reader_->attempt()) reader_->resume();
}

void Socket::on_ready(std::uint32_t events) {
  const bool broken = (events & (EPOLLERR | EPOLLHUP)) != 0;
  if ((events & (EPOLLIN | EPOLLRDHUP)) != 0 || broken) may_read_ = true;
  if ((events & EPOLLOUT) != 0 || broken) may_write_ = true;
  if ((events & EPOLLRDHUP) != 0 || broken) peer_ended_ = true;
  if (broken) peer_gone_ = true;
  if (tls_ != nullptr) tls_->on_event(peer_ended_);
  if (may_read_ && watcher_ != nullptr && reader_ == nullptr) {
    Watcher* watcher = watcher_;
    if (const auto what = look()) {
      watcher_ = nullptr;
      watcher->peer_moved(*what);
    }
  }
  if (end_watcher_ != nullptr && peer_ended_) end_watcher_->peer_moved(peer_gone_ ? Peer::gone : Peer::end);
  wake_waiters();
}

void Socket::cancel() {
  if (cancelled_) return;
  cancelled_ = true;
  loop_.arm(cancel_timer_, Duration::zero());
}

void Socket::fail(const ConnectionFault& fault) {
  if (!faulty_) loop_.report(fault);
  faulty_ = true;
  reset_on_close();
  cancel();
}

void Socket::restore() {
  if (faulty_ || fd_ < 0) return;
  cancelled_ = false;
  loop_.disarm(cancel_timer_);
}

std::optional<Socket::Peer> Socket::look() {
  if (fd_ < 0) return Peer::gone;
  if (tls_ != nullptr) return look_secure();
  char byte = 0;
  const ssize_t got = net().peek(fd_, {&byte, 1});
  if (got > 0) return Peer::bytes;
  if (got == 0) return Peer::end;
  if (errno == EAGAIN || errno == EINTR) {
    may_read_ = false;
    return std::nullopt;
  }
  return Peer::gone;
}

std::optional<Socket::Peer> Socket::look_secure() {
  switch (tls_->look()) {
    case TlsStream::Step::ok: return Peer::bytes;
    case TlsStream::Step::wait:
      if (tls_->starved()) may_read_ = false;
      return std::nullopt;
    case TlsStream::Step::end: return Peer::end;
    case TlsStream::Step::failed: break;
  }
  return Peer::gone;
}

void Socket::secure(std::unique_ptr<TlsStream> tls) {
  tls_ = std::move(tls);
  tls_->attach(net(), fd_);
}

void Socket::make_plain() {
  tls_.reset();
}

std::optional<Socket::Peer> Socket::watch(Watcher& watcher) {
  if (!ONCE_HOLDS(*this, watcher_ == nullptr)) return Peer::gone;
  if (may_read_) {
    if (const auto what = look()) return what;
  }
  watcher_ = &watcher;
  return std::nullopt;
}

std::optional<Socket::Peer> Socket::watch_end(Watcher& watcher) {
  end_watcher_ = &watcher;
  if (!peer_ended_) return std::nullopt;
  return peer_gone_ ? Peer::gone : Peer::end;
}

bool Socket::quiet() {
  return !peer_ended_ && !look();
}

Socket::Accepted Socket::accept() {
  Accepted accepted;
  accepted.fd = net().accept(fd_, accepted.peer);
  if (accepted.fd < 0 && errno == EAGAIN) may_read_ = false;
  return accepted;
}

void Socket::shut_down_writing() {
  if (resets_ || fd_ < 0) return;  // a clean end would make the peer take a part for the whole
  if (tls_ != nullptr) tls_->end();
  net().shut_down_writing(fd_);
}

void Socket::reset_on_close() {
  if (tls_ != nullptr) tls_->mute();
  resets_ = true;
  if (fd_ >= 0) net().reset_on_close(fd_);
}

void Socket::end_on_close() {
  if (tls_ != nullptr || fd_ < 0) return;
  resets_ = false;
  net().end_on_close(fd_);
}

}  // namespace once::http
