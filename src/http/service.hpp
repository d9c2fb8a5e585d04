// A small HTTP server for Once's own pages: the whole request in, the whole response out, or a stream of events. Not
// for proxying.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/executor.hpp"
#include "base/reserved.hpp"
#include "base/task.hpp"
#include "http/head.hpp"
#include "http/loop.hpp"
#include "http/socket.hpp"

namespace once::http {

struct ServiceRequest {
  const RequestHead& head;
  std::string_view body;
  const bool& client_left;  // becomes true when the client disconnects while the handler runs
  std::string_view peer;    // its address without the port, "unix", or empty
};

// A streamed response body. It ends when next() returns nothing, the client disconnects or stops reading, or the
// service stops. Lives on the service's loop.
class ServiceStream {
 public:
  ServiceStream() = default;
  ServiceStream(const ServiceStream&) = delete;
  ServiceStream& operator=(const ServiceStream&) = delete;
  virtual ~ServiceStream() = default;

  // The next piece; empty: the end.
  virtual std::string next() = 0;
  // The time before the next piece.
  virtual Duration pause() const = 0;
};

struct ServiceResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::string fields;                     // "Name: value\r\n" each
  std::shared_ptr<ServiceStream> stream;  // instead of a body; the connection ends with it
  bool drop = false;                      // close the connection without a response
  std::shared_ptr<const void> held = {};  // released when the client has read the response, or has left
};

struct ServiceLimits {
  std::size_t max_body = std::size_t{1} << 20U;
  std::size_t max_connections = 1024;
  Duration stream_stall = std::chrono::seconds(10);  // a stream's client that reads nothing for this long is dropped
};

// A handler's decision on a request head, before any body is read.
struct Admission {
  // the response, if the request is refused; its body is not read and the connection closes
  std::optional<ServiceResponse> refusal = std::nullopt;
  std::size_t max_body = SIZE_MAX;  // applies if smaller than the service's own limit
};

// Why something was refused before it became a request.
enum class Refused : std::uint8_t { bad_request, body_too_large, too_many_connections, no_memory };

class ServiceHandler {
 public:
  // Called before the body is read. Override it to refuse callers without permission before memory is used.
  virtual Admission admit(const ServiceRequest& /*request*/) { return {}; }

  // Views of the request live until the task has ended.
  virtual Task<ServiceResponse> handle(const ServiceRequest& request) = 0;

  // The response to what was refused; the connection closes after it.
  virtual ServiceResponse refuse(Refused what, std::string_view why);
  virtual void connected() {}
  virtual void disconnected() {}
  // A connection without a request in progress was closed to make room for a new one.
  virtual void displaced() {}
  // Reserves memory for more of a body. Not called for bodies up to 4 KiB.
  virtual Reserved take_memory(std::size_t /*bytes*/) { return Reserved::yes; }
  virtual void give_back_memory(std::size_t /*bytes*/) {}

 protected:
  ~ServiceHandler() = default;
};

// Accepts and serves connections on one loop. Created by the loop's thread, and destroyed by it after the service has
// ended.
//
// At max_connections, a new connection displaces the one that has been without a request for the longest. An incomplete
// request does not count, so connections that send a few bytes and stop cannot block others.
class Service {
 public:
  Service(Loop& loop, int listener, ServiceHandler& handler, const ServiceLimits& limits);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service();

  // Closes the listener and every connection without a running handler. Pending responses may take one second; then
  // their connections are reset. The loop stops when the last connection is gone.
  void stop();

 private:
  class Connection;
  struct Link {
    Link* previous = this;
    Link* next = this;
  };
  // Connections, oldest first.
  struct List {
    Link ends;
    std::size_t size = 0;
  };

  struct StopTimer : Timer {
    Service* service = nullptr;
  };

  // Calls this for each connection in a list.
  template <class Each>
  void for_each_connection(Each each);
  void cut_off();
  Task<void> accept_all();
  Task<void> serve_connection(Socket::Accepted accepted);
  // If max_connections are in use, displaces one without a running request. Fails if all have one.
  bool try_make_room();
  void leave();

  // Keeps one descriptor in reserve for when there are none left, because health checks must be answered then too.
  void keep_spare();
  // Closes the spare descriptor, unless it was closed before.
  bool try_close_spare();

  Socket listener_;
  int spare_ = -1;
  ServiceHandler& handler_;
  ServiceLimits limits_;
  List waiting_;           // idle, or sending a response: these can be displaced
  List working_;           // running a handler, or streaming
  List refused_;           // receiving a refusal, then drained; not counted as connections, but equally limited
  std::size_t count_ = 0;  // in a list, or ending
  bool accepting_ = true;
  bool stopping_ = false;
  bool cut_off_ = false;  // no responses are sent any more
  StopTimer stop_timer_;
};

// A service with its own loop and thread. The handler runs on that thread and outlives this.
class ServiceThread final : private Work {
 public:
  // Broken invariants of connections are reported to `faults`; null: they are written to stderr.
  ServiceThread(ServiceHandler& handler, FaultListener* faults, const ServiceLimits& limits = ServiceLimits())
      : handler_(handler), limits_(limits) {
    if (faults != nullptr) loop_.listen(*faults);
  }
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;
  ~ServiceThread() { stop(); }

  // Called with address() before the first connection is accepted. On an error the service does not start.
  using Check = std::function<Result<void>(std::string_view address)>;
  // "HOST:PORT", with port 0 for any free one, or "unix:PATH". `inherited`: a socket that already listens there.
  Result<void> start(std::string_view listen, const std::vector<int>& inherited = {}, const Check& check = {});
  // Ends the service after running handlers have finished. begin_stop() does not wait for that.
  void stop();
  void begin_stop();
  // Whether the service has ended. Thread-safe.
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  // The actual listen address.
  const std::string& address() const { return address_; }
  // The listening socket, until stop().
  int listening() const { return listener_; }
  // Another process listens on the same socket: do not delete the file of a Unix socket.
  void hand_over() { handed_over_ = true; }
  Loop& loop() { return loop_; }

 private:
  ServiceHandler& handler_;
  ServiceLimits limits_;
  std::string address_;
  int listener_ = -1;
  bool handed_over_ = false;
  bool stop_begun_ = false;
  std::atomic<bool> ended_ = false;
  Loop loop_;
  std::unique_ptr<Service> service_;  // created and destroyed on the thread
  std::jthread thread_;
};

}  // namespace once::http
