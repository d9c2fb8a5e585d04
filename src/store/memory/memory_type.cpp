#include "store/memory/memory_type.hpp"

namespace once::memory {

namespace {

Result<std::unique_ptr<Store>> open_memory(const std::string& /*url*/, const StoreSettings& settings,
                                           const StorePorts& ports) {
  return std::make_unique<MemoryStore>(ports.clock, settings.memory);
}

}  // namespace

constexpr StoreType memory_type = {
    .name = "memory",
    .form = "memory:",
    .settings = {"memory"},
    .place = StorePlace::none,
    .open = open_memory,
};

}  // namespace once::memory
