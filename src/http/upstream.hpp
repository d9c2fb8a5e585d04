// Connections to one server of a backend: kept alive, checked before use, and returned to the pool only after the whole
// request was written and the whole response read.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/reserved.hpp"
#include "base/task.hpp"
#include "http/addresses.hpp"
#include "http/body.hpp"
#include "http/buffer.hpp"
#include "http/endpoint.hpp"
#include "http/head.hpp"
#include "http/response_fault.hpp"
#include "http/socket.hpp"

namespace once::http {

struct BodyChunk {
  enum class Kind : std::uint8_t { data, end, broken, timed_out };
  Kind kind;
  std::string_view data;  // valid until the next call
};

// A response whose body is still arriving. Destroying the pointer returns the connection to the pool, or closes it.
class ResponseSource {
 public:
  virtual Task<BodyChunk> next(Duration limit) = 0;
  // Whether the whole request was sent. Until then, a silent backend may still be reading it.
  virtual bool is_request_sent() const { return true; }
  virtual void done() = 0;

 protected:
  ~ResponseSource() = default;
};

struct EndSource {
  void operator()(ResponseSource* source) const { source->done(); }
};
using ResponseSourcePtr = std::unique_ptr<ResponseSource, EndSource>;

// Whether a message was transferred to its end.
enum class Transfer : std::uint8_t { whole, cut_off };

// Decides whether there is memory for a body that is collected. Outlives the bodies that it admitted.
class CollectRoom {
 public:
  // Reserves this many more bytes. May wait for them.
  virtual Task<Reserved> take(std::size_t bytes) = 0;
  virtual void give_back(std::size_t bytes) = 0;

 protected:
  ~CollectRoom() = default;
};

// Decides whether to wait longer for a response.
class Patience {
 public:
  // Whether to wait longer although the deadline has passed. If so, moves the deadline.
  virtual bool extend(std::chrono::nanoseconds& deadline) const = 0;

 protected:
  ~Patience() = default;
};

class TlsPeer;
class UpstreamPool;

class UpstreamConnection final : public ResponseSource {
 public:
  UpstreamConnection(UpstreamPool& pool, Loop& loop, int fd, const Endpoint& endpoint);
  UpstreamConnection(const UpstreamConnection&) = delete;
  UpstreamConnection& operator=(const UpstreamConnection&) = delete;
  ~UpstreamConnection();

  // Reads the head of a response, or of an interim one. Too many interim responses break the connection.
  enum class HeadRead : std::uint8_t { ok, no_bytes, broken, timed_out };
  Task<HeadRead> read_head(Method answers, std::chrono::nanoseconds deadline);
  // Discards an interim head, so that the next one can be read.
  void drop_head();

  // The part of the body, or its end, that has already arrived; nothing if more has to be read first.
  std::optional<BodyChunk> ready();
  // The next part of the body, without its framing.
  Task<BodyChunk> next(Duration limit) override;
  // The whole body if it has at most `limit` bytes. `data` without `whole`: it is longer, or there is no memory for
  // it; next() continues after the collected part, which may be empty.
  struct Collected {
    BodyChunk::Kind kind;
    bool whole;
    std::string_view data;
  };
  // The common case: the whole body arrived with the head and is used in place.
  std::optional<Collected> body_at_hand(std::size_t limit);
  Task<Collected> collect(std::size_t limit, std::chrono::nanoseconds deadline, CollectRoom* room = nullptr,
                          const Patience* patience = nullptr);

  void done() override;
  // The whole request was sent. Without this call the connection is not reused: the backend would parse the next
  // request as the rest of this one.
  void request_written() { request_written_ = true; }

  // Why the last read failed, other than a lost connection.
  std::optional<ResponseFault> fault() const { return fault_; }

  Socket& socket() { return socket_; }
  Buffer& buffer() { return buffer_; }
  ResponseHead& head() { return head_; }
  const BodyDecoder& body() const { return body_; }
  bool reused() const { return reused_; }
  // A buffer for the request's head, kept with the connection to avoid allocations.
  std::string& request_head() { return request_head_; }

 private:
  friend class UpstreamPool;

  Duration left_until(std::chrono::nanoseconds deadline) const;
  // Call before the next read, when earlier bytes are not used any more.
  void widen_for_more();
  Task<BodyChunk> next_until(std::chrono::nanoseconds deadline);
  Task<Reserved> grow_collected(std::size_t needed, std::size_t most);
  void release_collected();

  UpstreamPool& pool_;
  Endpoint endpoint_;             // its address
  std::uint64_t generation_ = 0;  // the last version of the addresses that contained it
  Socket socket_;
  Buffer buffer_;
  ResponseHead head_;
  BodyDecoder body_;
  std::string request_head_;
  std::string collected_;
  CollectRoom* room_ = nullptr;  // it reserved `room_taken_` bytes for the body
  std::size_t room_taken_ = 0;
  std::chrono::nanoseconds idle_since_{};
  Duration longest_idle_{};  // the backend's Keep-Alive timeout
  std::size_t interim_ = 0;  // interim responses to the current request
  std::optional<ResponseFault> fault_;
  bool reused_ = false;
  bool request_written_ = false;
  bool response_read_ = false;  // completely, and the backend keeps the connection open
  bool busy_ = false;           // counted in UpstreamPool::busy()
};

using UpstreamConnectionPtr = std::unique_ptr<UpstreamConnection, EndSource>;

// The limit of interim responses (1xx) to one request: one every 20 seconds for an hour.
inline constexpr std::size_t most_interim_responses = 256;

// Larger limits than for clients, because backends are trusted.
inline constexpr HeadLimits response_head_limits{.max_bytes = 131072, .max_fields = 500, .max_target = 0};

struct PoolLimits {
  std::size_t max_idle = 1024;  // an upper bound, however many were in use
  Duration idle_max = std::chrono::seconds(4);
  std::size_t max_open = 0;  // busy and idle together; 0: no limit
};

// Called on the loop's thread when a connection is released. Must not use the pool during the call.
class PoolListener {
 public:
  virtual void connection_free() = 0;

 protected:
  ~PoolListener() = default;
};

// Why there is no connection.
enum class ConnectFault : std::uint8_t { not_reached, out_of_descriptors };

// One per loop and server.
class UpstreamPool final : private Timer {
 public:
  // `open`, if given, counts the connections of all pools that share it. With `tls`, which outlives the pool,
  // connections use TLS.
  UpstreamPool(Loop& loop, const Addresses& addresses, const PoolLimits& limits, const HeadLimits& head_limits,
               std::atomic<std::uint64_t>* open = nullptr, TlsPeer* tls = nullptr);
  UpstreamPool(const UpstreamPool&) = delete;
  UpstreamPool& operator=(const UpstreamPool&) = delete;
  ~UpstreamPool();

  void listen(PoolListener& listener) { listener_ = &listener; }

  // A connection that was idle for no longer than this and is still open, as far as the kernel knows; null if there is
  // none.
  UpstreamConnectionPtr take_idle(Duration longest_idle);
  // A new connection. Null if no address accepts it, or the process is out of descriptors: see `fault`.
  Task<UpstreamConnectionPtr> connect(Duration limit, ConnectFault* fault = nullptr);
  // Cancels every connect() in progress.
  void cancel_connects();

  // In use, or about to be.
  std::size_t busy() const { return busy_; }
  std::size_t idle() const { return idle_.size(); }

 private:
  friend class UpstreamConnection;

  void follow_addresses();
  void make_room();
  Result<int> start(const Endpoint& endpoint);
  void give_back(UpstreamConnection& connection);
  void drop_surplus(std::size_t busy);
  void use_one();
  void let_go();
  void close_old();
  Task<Io> secure(Socket& socket, Duration limit);

  Loop& loop_;
  const Addresses& addresses_;
  std::uint64_t generation_;
  std::shared_ptr<const Endpoints> endpoints_;
  PoolLimits limits_;
  HeadLimits head_limits_;
  TlsPeer* tls_;
  std::atomic<std::uint64_t>* open_;
  PoolListener* listener_ = nullptr;
  std::size_t busy_ = 0;
  // The most that were in use at a time, in this window and in the previous one.
  std::size_t peak_ = 0;
  std::size_t peak_before_ = 0;
  std::chrono::nanoseconds peak_since_{};
  std::vector<UpstreamConnection*> connecting_;
  std::vector<std::unique_ptr<UpstreamConnection>> idle_;  // most recently used last
};

}  // namespace once::http
