// Looks the names of servers up again from time to time, on a thread of its own: a look-up blocks, for as long as it
// likes.
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
  // For the servers that have a name. The thread holds its share of the upstreams: one that is in the middle of a
  // look-up is left to end by itself when this is destroyed, and says and changes nothing any more.
  UpstreamResolver(std::shared_ptr<const std::vector<std::unique_ptr<UpstreamState>>> upstreams,
                   http::Resolver resolver, const Log& log);
  UpstreamResolver(const UpstreamResolver&) = delete;
  UpstreamResolver& operator=(const UpstreamResolver&) = delete;
  ~UpstreamResolver();

 private:
  struct Rounds;
  std::shared_ptr<Rounds> rounds_;  // null: nothing has a name
  std::thread thread_;
};

}  // namespace once::gateway
