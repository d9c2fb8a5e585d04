#include "gateway/upstream/upstream_resolver.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.hpp"

namespace once::gateway {

namespace {

// How often to look up a name that was never found: requests wait for it.
constexpr Duration look_for_unfound = std::chrono::seconds(1);

std::string text_of(const http::Endpoints& endpoints) {
  std::string text;
  for (const http::Endpoint& endpoint : endpoints) text += (text.empty() ? "" : ", ") + endpoint.text();
  return text;
}

}  // namespace

struct UpstreamResolver::Rounds {
  struct Name {
    const Upstream& upstream;
    ServerState& server;
    std::chrono::nanoseconds due{};
    bool failing = false;  // and the failure was logged

    Duration pause() const {
      const bool found = server.health.located();
      return found ? upstream.resolve_every : std::min(upstream.resolve_every, look_for_unfound);
    }
  };

  void run();
  void settle(Name& name, Result<http::Endpoints> found);

  std::shared_ptr<const std::vector<std::unique_ptr<UpstreamState>>> upstreams;
  http::Resolver resolver;
  const Log* log;
  std::vector<Name> names;
  std::mutex mutex;
  std::condition_variable wake;
  bool looking = false;  // a lookup is in progress
  bool stopped = false;
};

void UpstreamResolver::Rounds::run() {
  std::unique_lock lock(mutex);
  while (!stopped) {
    Name& next = *std::ranges::min_element(names, {}, &Name::due);
    const auto left = next.due - monotonic_now();
    if (left > std::chrono::nanoseconds::zero()) {
      wake.wait_for(lock, left);
      continue;
    }
    looking = true;
    lock.unlock();
    Result<http::Endpoints> found = locate(next.server.settings, resolver);
    lock.lock();
    looking = false;
    if (stopped) return;
    settle(next, std::move(found));
    next.due = monotonic_now() + next.pause();
  }
}

// If the lookup fails, keep the last addresses.
void UpstreamResolver::Rounds::settle(Name& name, Result<http::Endpoints> found) {
  if (!found || found->empty()) {
    const std::string error = found ? "the name has no address" : found.error().detail;
    if (!name.failing) {
      log->warn("server name cannot be resolved; its last addresses are used",
                {{"upstream", name.upstream.name}, {"server", name.server.name}, {"error", error}});
    }
    name.failing = true;
    return;
  }
  name.failing = false;
  if (!name.server.health.located()) {
    log->info("server name resolved",
              {{"upstream", name.upstream.name}, {"server", name.server.name}, {"addresses", text_of(*found)}});
    name.server.addresses.publish(std::move(*found));
    name.server.health.set_located(true);
    return;
  }
  if (http::same_addresses(*found, *name.server.addresses.current())) return;
  log->info("server addresses changed",
            {{"upstream", name.upstream.name}, {"server", name.server.name}, {"addresses", text_of(*found)}});
  name.server.addresses.publish(std::move(*found));
}

UpstreamResolver::UpstreamResolver(std::shared_ptr<const std::vector<std::unique_ptr<UpstreamState>>> upstreams,
                                   http::Resolver resolver, const Log& log) {
  auto rounds = std::make_shared<Rounds>();
  for (const auto& upstream : *upstreams) {
    for (const auto& server : upstream->servers) {
      if (!has_name(server->settings)) continue;
      Rounds::Name& name = rounds->names.emplace_back(
          Rounds::Name{.upstream = upstream->settings, .server = *server, .failing = !server->health.located()});
      name.due = monotonic_now() + name.pause();
    }
  }
  if (rounds->names.empty()) return;
  rounds->upstreams = std::move(upstreams);
  rounds->resolver = std::move(resolver);
  rounds->log = &log;
  rounds_ = rounds;
  thread_ = std::thread([rounds] { rounds->run(); });
}

UpstreamResolver::~UpstreamResolver() {
  if (!rounds_) return;
  bool looking = false;
  {
    const std::scoped_lock lock(rounds_->mutex);
    rounds_->stopped = true;
    looking = rounds_->looking;
    rounds_->wake.notify_one();
  }
  if (looking) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

}  // namespace once::gateway
