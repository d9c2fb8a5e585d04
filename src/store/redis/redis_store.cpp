#include "store/redis/redis_store.hpp"

#include <utility>

#include "base/assert.hpp"
#include "store/redis/batch.hpp"
#include "store/redis/directory.hpp"
#include "store/redis/listener.hpp"
#include "store/redis/node.hpp"
#include "store/redis/reviver.hpp"

namespace once::redis {

RedisStore::RedisStore() = default;
RedisStore::~RedisStore() = default;

Result<std::unique_ptr<RedisStore>> RedisStore::open(const std::string& url, const ServerSettings& settings,
                                                     const Log& log) {
  auto options = parse_options(url);
  if (!options) return std::unexpected(std::move(options.error()));
  TlsContext tls;
  if (options->tls.on) {
    auto made = make_tls_context(options->tls);
    if (!made) return std::unexpected(std::move(made.error()));
    tls = std::move(*made);
  }
  std::unique_ptr<RedisStore> store(new RedisStore());
  store->context_ = std::make_unique<Context>(std::move(*options), settings, std::move(tls), log, store->counts_);
  store->directory_ = std::make_unique<Directory>(*store->context_);
  store->reviver_ = std::make_unique<Reviver>(*store->context_, *store->directory_);
  if (auto reached = store->reach_servers(); !reached) {
    if (reached.error().retryable == Retryable::no) return std::unexpected(std::move(reached.error()));
    log.warn("Redis cannot be reached; keyed requests fail until it is back", {{"error", reached.error().detail}});
  }
  return store;
}

Result<void> RedisStore::reach_servers() {
  const Duration enough = context_->settings.connect_timeout + context_->settings.timeout;
  if (auto found = directory_->find_again(nullptr, Deadline::after(enough)); !found) return found;
  Result<void> reached;
  for (const auto& node : directory_->now()->nodes) {
    auto link = node->take(Deadline::after(enough));
    if (link || (!reached && reached.error().retryable == Retryable::no)) continue;
    reached = std::unexpected(std::move(link.error()));
  }
  return reached;
}

void RedisStore::execute_until(std::chrono::nanoseconds until, std::span<Op* const> batch) {
  Batch(*context_, *directory_, Deadline::at(until), batch).run();
}

Duration RedisStore::time_limit() const {
  const ServerSettings& settings = context_->settings;
  return settings.wait_replicas == 0 ? settings.timeout : settings.timeout + settings.wait_timeout;
}

std::size_t RedisStore::part_of(const OperationId& id) const {
  if (context_->options.mode != Mode::cluster) return 0;
  return directory_->part_of(slot_of(context_->options.prefix, id));
}

Traits RedisStore::traits() const {
  return {.durable = context_->durable ? Durable::yes : Durable::no, .shared = Shared::yes, .inline_execution = false};
}

void RedisStore::notify_of_ends(std::function<void(const OperationId&)> notify) {
  ONCE_ASSERT(!listener_);
  listener_ = std::make_unique<Listener>(*context_, *directory_, std::move(notify));
}

Result<Swept> RedisStore::sweep(std::size_t /*limit*/) {
  return Swept();
}

}  // namespace once::redis
