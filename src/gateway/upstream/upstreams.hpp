// What the workers of a gateway share of its backends: the servers, their health checks and name resolution. Created
// before the workers and destroyed after them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "gateway/settings.hpp"
#include "gateway/upstream/upstream_resolver.hpp"
#include "gateway/upstream/upstream_state.hpp"
#include "gateway/upstream/upstream_watch.hpp"
#include "http/addresses.hpp"

namespace once::gateway {

class Upstreams {
 public:
  // Resolves all servers, which blocks. A server whose name does not resolve yet gets no requests until it does,
  // because it may start later than this process. Then starts the health checks; with `net`, the caller runs them.
  static Result<std::unique_ptr<Upstreams>> open(const std::vector<Upstream>& settings, const http::Resolver& resolver,
                                                 const http::TlsClientContext::Ptr& tls, const Log& log,
                                                 http::FaultListener& faults, http::Net* net = nullptr);

  std::size_t size() const { return states_->size(); }
  UpstreamState& operator[](std::size_t index) const { return *(*states_)[index]; }
  UpstreamWatch& watch() { return *watch_; }

 private:
  Upstreams() = default;

  std::shared_ptr<std::vector<std::unique_ptr<UpstreamState>>> states_ =
      std::make_shared<std::vector<std::unique_ptr<UpstreamState>>>();
  std::optional<UpstreamResolver> resolver_;
  std::optional<UpstreamWatch> watch_;
};

}  // namespace once::gateway
