#include "gateway/generation.hpp"

#include <string>

#include <fmt/format.h>

namespace once {

Generation::Generation(const ServingSettings& all) : settings(all), routes(settings.routes, settings.upstreams) {}

Result<std::shared_ptr<Generation>> Generation::make(const ServingSettings& settings) {
  auto generation = std::make_shared<Generation>(settings);
  for (const Upstream& upstream : settings.upstreams) {
    auto resolved = http::resolve(upstream.host, std::to_string(upstream.port));
    if (!resolved) return std::unexpected(resolved.error());
    generation->endpoints.push_back(std::move(*resolved));
  }
  const auto named = [](std::string_view setting, const Error& error) {
    return std::unexpected(Error{
        .source = error.source, .retryable = error.retryable, .detail = fmt::format("{}: {}", setting, error.detail)});
  };
  http::Warnings warnings;  // were given when the configuration was checked
  if (settings.tls.listen != "off") {
    auto tls = http::TlsServerContext::make(settings.tls, warnings);
    if (!tls) return named("tls", tls.error());
    generation->tls = *std::move(tls);
  }
  if (has_https(settings.upstreams)) {
    auto tls = http::TlsClientContext::make(settings.upstream_tls, warnings);
    if (!tls) return named("upstream_tls", tls.error());
    generation->upstream_tls = *std::move(tls);
  }
  return generation;
}

ServedGeneration::ServedGeneration(std::shared_ptr<Generation> generation, http::Loop& loop, Metrics& metrics,
                                   const Log& log)
    : generation_(std::move(generation)) {
  const ServingSettings& all = generation_->settings;
  if (all.tokens.verifier) tokens_.emplace(all.tokens.verifier, metrics);
  for (std::size_t i = 0; i < all.upstreams.size(); ++i) {
    const http::PoolLimits limits{.max_idle = all.pool.max_idle, .idle_max = all.pool.idle_max};
    const bool secure = all.upstreams[i].scheme == Upstream::Scheme::https;
    tls_peers_.push_back(secure ? std::make_unique<http::TlsPeer>(generation_->upstream_tls, all.upstreams[i].host, log)
                                : nullptr);
    pools_.push_back(std::make_unique<http::UpstreamPool>(loop, generation_->endpoints[i], limits,
                                                          http::response_head_limits, tls_peers_.back().get()));
    backends_.push_back(
        std::make_unique<HttpBackend>(loop, *pools_.back(), all.upstreams[i], all.pool.keyed_idle_max, metrics));
  }
}

}  // namespace once
