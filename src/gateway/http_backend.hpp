// A backend behind HTTP/1.1. Sends a request at most once: another connection is tried only while no byte was written.
#pragma once

#include <string>

#include "gateway/backend.hpp"
#include "gateway/metrics.hpp"
#include "http/loop.hpp"
#include "http/upstream.hpp"

namespace once {

class HttpBackend final : public Backend {
 public:
  HttpBackend(http::Loop& loop, http::UpstreamPool& pool, std::string base_path, Duration keyed_idle_max,
              Metrics& metrics)
      : loop_(loop),
        pool_(pool),
        base_path_(std::move(base_path)),
        keyed_idle_max_(keyed_idle_max),
        metrics_(metrics) {}

  Task<BackendAnswer> send(const BackendRequest& request) override;

  const std::string& base_path() const { return base_path_; }
  http::UpstreamPool& pool() { return pool_; }

 private:
  Task<BackendAnswer> receive(const BackendRequest& request, http::UpstreamConnectionPtr connection);

  http::Loop& loop_;
  http::UpstreamPool& pool_;
  std::string base_path_;
  // A connection that a backend closes just as a request goes out looks like a backend that died with it.
  Duration keyed_idle_max_;
  Metrics& metrics_;
};

}  // namespace once
