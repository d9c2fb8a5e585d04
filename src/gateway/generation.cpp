#include "gateway/generation.hpp"

#include <string>

namespace once {

Generation::Generation(const ServingSettings& all) : settings(all), routes(settings.routes, settings.upstreams) {}

Result<std::shared_ptr<Generation>> Generation::make(const ServingSettings& settings) {
  auto generation = std::make_shared<Generation>(settings);
  for (const Upstream& upstream : settings.upstreams) {
    auto resolved = http::resolve(upstream.host, std::to_string(upstream.port));
    if (!resolved) return std::unexpected(resolved.error());
    generation->endpoints.push_back(std::move(*resolved));
  }
  return generation;
}

ServedGeneration::ServedGeneration(std::shared_ptr<Generation> generation, http::Loop& loop, Metrics& metrics)
    : generation_(std::move(generation)) {
  const ServingSettings& all = generation_->settings;
  if (all.tokens.verifier) tokens_.emplace(all.tokens.verifier, metrics);
  for (std::size_t i = 0; i < all.upstreams.size(); ++i) {
    const http::PoolLimits limits{.max_idle = all.pool.max_idle, .idle_max = all.pool.idle_max};
    pools_.push_back(
        std::make_unique<http::UpstreamPool>(loop, generation_->endpoints[i], limits, http::response_head_limits));
    backends_.push_back(
        std::make_unique<HttpBackend>(loop, *pools_.back(), all.upstreams[i], all.pool.keyed_idle_max, metrics));
  }
}

}  // namespace once
