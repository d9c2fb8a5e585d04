// A backend behind HTTP/1.1. Sends a request at most once: another connection is tried only while no byte was written.
#pragma once

#include <string>

#include "gateway/backend.hpp"
#include "gateway/metrics.hpp"
#include "gateway/settings.hpp"
#include "http/loop.hpp"
#include "http/upstream.hpp"

namespace once {

class HttpBackend final : public Backend {
 public:
  HttpBackend(http::Loop& loop, http::UpstreamPool& pool, const Upstream& upstream, Duration keyed_idle_max,
              Metrics& metrics);

  Task<BackendAnswer> send(const BackendRequest& request) override;

  const std::string& base_path() const { return base_path_; }
  const std::string& authority() const { return authority_; }
  http::UpstreamPool& pool() { return pool_; }

 private:
  Task<BackendAnswer> receive(const BackendRequest& request, http::UpstreamConnectionPtr connection);

  http::Loop& loop_;
  http::UpstreamPool& pool_;
  std::string base_path_;
  std::string authority_;  // host and port
  // A connection that a backend closes just as a request goes out looks like a backend that died with it.
  Duration keyed_idle_max_;
  Metrics& metrics_;
};

}  // namespace once
