// A generation is one version of the configuration. A reload makes the next one; a request is served to its end by the
// one it began with.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "gateway/identity/routes.hpp"
#include "gateway/identity/token_cache.hpp"
#include "gateway/settings.hpp"
#include "gateway/upstream/http_backend.hpp"
#include "gateway/upstream/upstream_group.hpp"
#include "gateway/upstream/upstreams.hpp"
#include "http/tls_context.hpp"

namespace once::gateway {

// The part of a generation that all workers share. Destroyed by the gateway's own thread, never by a worker's.
class Generation {
 public:
  // Resolves backend names and reads certificates, which blocks, and starts to watch the backends.
  static Result<std::shared_ptr<Generation>> make(const ServingSettings& settings, const Log& log,
                                                  http::FaultListener& faults);

  Generation(const ServingSettings& all, std::unique_ptr<Upstreams> opened);

  const ServingSettings settings;
  const Routes routes;
  const std::unique_ptr<Upstreams> upstreams;
  http::TlsServerContext::Ptr tls;  // null: no TLS for clients
};

// One worker's part of a generation, with its own connections to the backends. Lives while the worker accepts requests
// into it and until the last of them has ended.
class ServedGeneration {
 public:
  ServedGeneration(std::shared_ptr<Generation> generation, WorkerShare share, const UpstreamGroup::Ports& ports,
                   std::string_view via);
  ServedGeneration(const ServedGeneration&) = delete;
  ServedGeneration& operator=(const ServedGeneration&) = delete;

  const ServingSettings& settings() const { return generation_->settings; }
  const Routes& routes() const { return generation_->routes; }
  const http::TlsServerContext& tls() const { return *generation_->tls; }
  HttpBackend& backend(std::size_t upstream) { return *backends_[upstream]; }
  // The counters of a route; they outlive this.
  RouteMetrics& counts(const RoutedPolicy& routed) const { return *counts_[routed.index]; }
  RouteMetrics& counts_of_none() const { return *counts_.back(); }
  TokenCache* tokens() { return tokens_ ? &*tokens_ : nullptr; }  // null: no route reads tokens

 private:
  friend class GenerationUse;

  std::shared_ptr<Generation> generation_;
  std::vector<std::unique_ptr<UpstreamGroup>> groups_;
  std::vector<std::unique_ptr<HttpBackend>> backends_;
  std::vector<RouteMetrics*> counts_;  // by route; the last is for requests without one
  std::optional<TokenCache> tokens_;
  std::size_t uses_ = 0;  // used by one thread only
};

// Keeps a generation alive.
class GenerationUse {
 public:
  GenerationUse() = default;
  explicit GenerationUse(ServedGeneration* served) : served_(served) { ++served_->uses_; }
  GenerationUse(const GenerationUse& other) : served_(other.served_) {
    if (served_ != nullptr) ++served_->uses_;
  }
  GenerationUse(GenerationUse&& other) noexcept : served_(std::exchange(other.served_, nullptr)) {}
  GenerationUse& operator=(GenerationUse other) noexcept {
    std::swap(served_, other.served_);
    return *this;
  }
  ~GenerationUse() {
    if (served_ != nullptr && --served_->uses_ == 0) delete served_;
  }

  ServedGeneration* operator->() const { return served_; }

 private:
  ServedGeneration* served_ = nullptr;
};

}  // namespace once::gateway
