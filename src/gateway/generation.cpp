#include "gateway/generation.hpp"

#include <fmt/format.h>

namespace once::gateway {

Generation::Generation(const ServingSettings& all, std::unique_ptr<Upstreams> opened)
    : settings(all), routes(settings.routes, settings.upstreams), upstreams(std::move(opened)) {}

Result<std::shared_ptr<Generation>> Generation::make(const ServingSettings& settings, const Log& log,
                                                     http::FaultListener& faults) {
  const auto named = [](std::string_view setting, const Error& error) {
    return std::unexpected(Error{
        .source = error.source, .retryable = error.retryable, .detail = fmt::format("{}: {}", setting, error.detail)});
  };
  http::Warnings warnings;  // the warnings were logged when the configuration was checked
  http::TlsServerContext::Ptr tls;
  if (settings.tls.listen != "off") {
    auto made = http::TlsServerContext::make(settings.tls, warnings);
    if (!made) return named("tls", made.error());
    tls = *std::move(made);
  }
  http::TlsClientContext::Ptr upstream_tls;
  if (has_https(settings.upstreams)) {
    auto made = http::TlsClientContext::make(settings.upstream_tls, warnings);
    if (!made) return named("upstream_tls", made.error());
    upstream_tls = *std::move(made);
  }
  auto upstreams = Upstreams::open(settings.upstreams, http::resolve, upstream_tls, log, faults);
  if (!upstreams) return std::unexpected(upstreams.error());
  auto generation = std::make_shared<Generation>(settings, std::move(*upstreams));
  generation->tls = std::move(tls);
  return generation;
}

ServedGeneration::ServedGeneration(std::shared_ptr<Generation> generation, WorkerShare share,
                                   const UpstreamGroup::Ports& ports, std::string_view via)
    : generation_(std::move(generation)) {
  const ServingSettings& all = generation_->settings;
  const PoolSettings& pool = all.pool;
  if (all.tokens.verifier) tokens_.emplace(all.tokens.verifier, ports.metrics);
  for (const Route& route : all.routes) counts_.push_back(&ports.metrics.routes.of(route_label(route)));
  counts_.push_back(&ports.metrics.routes.of(RouteTable::none));
  for (std::size_t i = 0; i < generation_->upstreams->size(); ++i) {
    UpstreamState& upstream = (*generation_->upstreams)[i];
    groups_.push_back(std::make_unique<UpstreamGroup>(upstream, pool, share, ports));
    backends_.push_back(
        std::make_unique<HttpBackend>(ports.loop, *groups_.back(), upstream.settings, pool.keyed_idle_max, via));
  }
}

}  // namespace once::gateway
