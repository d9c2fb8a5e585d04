#include "gateway/upstream/upstreams.hpp"

#include <utility>

namespace once::gateway {

Result<std::unique_ptr<Upstreams>> Upstreams::open(const std::vector<Upstream>& settings,
                                                   const http::Resolver& resolver,
                                                   const http::TlsClientContext::Ptr& tls, const Log& log,
                                                   http::FaultListener& faults, http::Net* net) {
  std::unique_ptr<Upstreams> all(new Upstreams());
  for (const Upstream& upstream : settings) {
    auto state = std::make_unique<UpstreamState>(upstream, tls);
    for (const UpstreamServer& server : upstream.servers) {
      auto endpoints = locate(server, resolver);
      if (!endpoints && !has_name(server)) return std::unexpected(endpoints.error());
      if (!endpoints || endpoints->empty()) {
        log.warn("server name cannot be resolved; it gets no requests until it can",
                 {{"upstream", upstream.name},
                  {"server", server_name(server)},
                  {"error", endpoints ? "the name has no address" : endpoints.error().detail}});
        endpoints = http::Endpoints();
      }
      state->servers.push_back(std::make_unique<ServerState>(upstream, server, std::move(*endpoints), state->ejected));
    }
    all->states_->push_back(std::move(state));
  }
  all->resolver_.emplace(all->states_, resolver, log);
  all->watch_.emplace(*all->states_, log, faults, net);
  return all;
}

}  // namespace once::gateway
