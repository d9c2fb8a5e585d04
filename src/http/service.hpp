// A small HTTP server for our own pages: the whole request in, the whole response out. Not for proxying.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/task.hpp"
#include "http/head.hpp"
#include "http/socket.hpp"

namespace once::http {

struct ServiceRequest {
  const RequestHead& head;
  std::string_view body;
};

struct ServiceResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::string fields;  // "Name: value\r\n" each
  bool drop = false;   // close the connection without a word
};

class ServiceHandler {
 public:
  // Views of the request live until the task has ended.
  virtual Task<ServiceResponse> handle(const ServiceRequest& request) = 0;

 protected:
  ~ServiceHandler() = default;
};

// Accepts and serves on one loop. The loop's thread makes it, and destroys it after it has ended.
class Service {
 public:
  Service(Loop& loop, int listener, ServiceHandler& handler);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service();

  // Closes the listener and, unless a handler is at work on it, every connection. The loop stops when the last is gone.
  void stop();

 private:
  class Connection;

  Task<void> accept_all();
  Task<void> serve_connection(int fd);
  void leave();

  Socket listener_;
  ServiceHandler& handler_;
  Connection* connections_ = nullptr;  // a list
  bool accepting_ = true;
  bool stopping_ = false;
};

}  // namespace once::http
