// Resolves server names again from time to time, on its own thread, because a lookup may block for a long time.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "base/log.hpp"
#include "gateway/upstream/upstream_state.hpp"
#include "http/addresses.hpp"

namespace once::gateway {

class UpstreamResolver {
 public:
  // Covers the servers that have a name. The thread shares ownership of the upstreams: a lookup in progress when this
  // is destroyed ends by itself, without logging or changing anything.
  UpstreamResolver(std::shared_ptr<const std::vector<std::unique_ptr<UpstreamState>>> upstreams,
                   http::Resolver resolver, const Log& log);
  UpstreamResolver(const UpstreamResolver&) = delete;
  UpstreamResolver& operator=(const UpstreamResolver&) = delete;
  ~UpstreamResolver();

 private:
  struct Rounds;
  std::shared_ptr<Rounds> rounds_;  // null: no server has a name
  std::thread thread_;
};

}  // namespace once::gateway
