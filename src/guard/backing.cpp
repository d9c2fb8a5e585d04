#include "guard/backing.hpp"

#include <utility>

namespace once::guard {

std::expected<std::unique_ptr<Backing>, OpenError> Backing::open(const Options& options, const Clock& clock,
                                                                 const Log& log) {
  const StoreSettings settings{.memory = {.max_bytes = options.memory_bytes},
                               .server = {.connections = options.connections, .timeout = options.store_timeout},
                               .sealing_secrets = options.encryption_secrets};
  auto opened = open_store(options.store, settings, {.clock = clock, .log = log});
  if (!opened) return std::unexpected(OpenError{std::move(opened.error().detail)});
  return std::unique_ptr<Backing>(new Backing(*std::move(opened)));
}

std::unique_ptr<Backing> Backing::of(std::unique_ptr<Store> store) {
  OpenedStore opened;
  opened.plain = std::move(store);
  return std::unique_ptr<Backing>(new Backing(std::move(opened)));
}

void Backing::start() {
  lanes_ = std::make_unique<ThreadLanes>(store(), LaneLimits{.lanes = opened_.lanes});
}

}  // namespace once::guard
