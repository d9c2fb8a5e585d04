// Connections to one server of a backend: kept alive, checked before use, and given back only when the whole request
// was written and the whole response read.
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

// A response whose body is still coming in. Destroying the pointer gives the connection back, or closes it.
class ResponseSource {
 public:
  virtual Task<BodyChunk> next(Duration limit) = 0;
  virtual void done() = 0;

 protected:
  ~ResponseSource() = default;
};

struct FinishSource {
  void operator()(ResponseSource* source) const { source->done(); }
};
using ResponseSourcePtr = std::unique_ptr<ResponseSource, FinishSource>;

// Who decides whether there is memory for a body that is collected. Outlives what it gave room to.
class CollectRoom {
 public:
  // Room for so many bytes more. May wait for it.
  virtual Task<bool> take(std::size_t bytes) = 0;
  virtual void give_back(std::size_t bytes) = 0;

 protected:
  ~CollectRoom() = default;
};

class TlsPeer;
class UpstreamPool;

class UpstreamConnection final : public ResponseSource {
 public:
  UpstreamConnection(UpstreamPool& pool, Loop& loop, int fd, const Endpoint& endpoint);
  UpstreamConnection(const UpstreamConnection&) = delete;
  UpstreamConnection& operator=(const UpstreamConnection&) = delete;
  ~UpstreamConnection();

  // The head of a response, interim ones included. After too many of those it is broken.
  enum class HeadRead : std::uint8_t { ok, no_bytes, broken, timed_out };
  Task<HeadRead> read_head(Method answers, std::chrono::nanoseconds deadline);
  // Forgets an interim head, so that the next one can be read.
  void drop_head();

  // What of the body, or its end, is here already; nothing if only reading on can tell.
  std::optional<BodyChunk> ready();
  // Some of the body, as the framing says.
  Task<BodyChunk> next(Duration limit) override;
  // The whole body if it is at most `limit` bytes long. `data` with `whole` false: it is longer, or there is no room
  // for it, and next() goes on after what was collected, which may be nothing.
  struct Collected {
    BodyChunk::Kind kind;
    bool whole;
    std::string_view data;
  };
  // The common case of it: the whole body came with the head, and is used where it lies.
  std::optional<Collected> body_at_hand(std::size_t limit);
  Task<Collected> collect(std::size_t limit, std::chrono::nanoseconds deadline, CollectRoom* room = nullptr);

  void done() override;
  // The whole request is on its way. Without this the connection is not used again: what the backend still expects of
  // this request would be taken from the next one.
  void request_written() { request_written_ = true; }

  // Why the last read was broken, if it was not because the connection was lost.
  std::optional<ResponseFault> fault() const { return fault_; }

  Socket& socket() { return socket_; }
  Buffer& buffer() { return buffer_; }
  ResponseHead& head() { return head_; }
  const BodyDecoder& body() const { return body_; }
  bool reused() const { return reused_; }
  // Space for the head of the request, kept with the connection so that it is allocated once.
  std::string& request_head() { return request_head_; }

 private:
  friend class UpstreamPool;

  Duration left_until(std::chrono::nanoseconds deadline) const;
  Task<BodyChunk> next_until(std::chrono::nanoseconds deadline);
  Task<bool> grow_collected(std::size_t needed, std::size_t most);
  void release_collected();

  UpstreamPool& pool_;
  Endpoint endpoint_;             // where it goes
  std::uint64_t generation_ = 0;  // of the addresses that this one was last known to be among
  Socket socket_;
  Buffer buffer_;
  ResponseHead head_;
  BodyDecoder body_;
  std::string request_head_;
  std::string collected_;
  CollectRoom* room_ = nullptr;  // that gave `room_taken_` bytes for it
  std::size_t room_taken_ = 0;
  std::chrono::nanoseconds rested_since_{};
  Duration rests_at_most_{};  // as the backend says
  std::size_t interim_ = 0;   // responses to the request at hand
  std::optional<ResponseFault> fault_;
  bool reused_ = false;
  bool request_written_ = false;
  bool response_read_ = false;  // to its end, and the backend keeps the connection
  bool busy_ = false;           // counted in UpstreamPool::busy()
};

using UpstreamConnectionPtr = std::unique_ptr<UpstreamConnection, FinishSource>;

// Interim responses (1xx) to one request: enough for one every 20 seconds in an hour. A backend that sends more will
// never come to its answer.
inline constexpr std::size_t most_interim_responses = 256;

// Backends are trusted further than clients.
inline constexpr HeadLimits response_head_limits{.max_bytes = 131072, .max_fields = 500, .max_target = 0};

struct PoolLimits {
  std::size_t max_idle = 64;
  Duration idle_max = std::chrono::seconds(4);
  std::size_t max_open = 0;  // busy and resting ones together; 0: any number
};

// Told on the loop's own thread, from wherever a connection is let go: may not use the pool there and then.
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
  // `open`, if there is one, counts the connections of all pools that share it. With `tls`, which outlives the pool,
  // its connections are secure.
  UpstreamPool(Loop& loop, const Addresses& addresses, const PoolLimits& limits, const HeadLimits& head_limits,
               std::atomic<std::uint64_t>* open = nullptr, TlsPeer* tls = nullptr);
  UpstreamPool(const UpstreamPool&) = delete;
  UpstreamPool& operator=(const UpstreamPool&) = delete;
  ~UpstreamPool();

  void listen(PoolListener& listener) { listener_ = &listener; }

  // A connection that rested no longer than this and is still open, as far as the kernel knows; or null.
  UpstreamConnectionPtr take_rested(Duration rested_at_most);
  // A new connection, or null when none of the addresses answers, or for want of a descriptor: `fault` says which.
  Task<UpstreamConnectionPtr> connect(Duration limit, ConnectFault* fault = nullptr);
  // Whatever is in connect() now ends without a connection.
  void cancel_connects();

  // In use, or about to be.
  std::size_t busy() const { return busy_; }
  std::size_t resting() const { return resting_.size(); }

 private:
  friend class UpstreamConnection;

  void follow_addresses();
  void make_room();
  Result<int> start(const Endpoint& endpoint);
  void give_back(UpstreamConnection& connection);
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
  std::vector<UpstreamConnection*> connecting_;
  std::vector<std::unique_ptr<UpstreamConnection>> resting_;  // the one that rested least is last
};

}  // namespace once::http
