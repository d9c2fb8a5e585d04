#include "store/catalog/catalog.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "store/journal/journal_type.hpp"
#include "store/memory/memory_type.hpp"

// The stores with a server: folder name, namespace and type. A program may be linked without them
// (src/store/CMakeLists.txt), so their symbols are weak.
#define ONCE_DRIVERS(driver) driver(redis) driver(postgres) driver(mysql)

#define ONCE_DECLARE(name)                          \
  namespace once::name {                            \
  extern const StoreType name##_type [[gnu::weak]]; \
  }
ONCE_DRIVERS(ONCE_DECLARE)
#undef ONCE_DECLARE

namespace once::store {

namespace {

struct Driver {
  std::string_view name;
  const StoreType* type;  // null: not linked
};

auto drivers() {
#define ONCE_ROW(name) Driver{#name, &name::name##_type},
  return std::array{ONCE_DRIVERS(ONCE_ROW)};
#undef ONCE_ROW
}

std::vector<const StoreType*> linked_types() {
  std::vector<const StoreType*> linked = {&journal::journal_type, &memory::memory_type};
  for (const Driver& each : drivers()) {
    if (each.type != nullptr) linked.push_back(each.type);
  }
  return linked;
}

// The error for a URL that no store has.
std::string no_such_store(std::string_view url) {
  for (const Driver& each : drivers()) {
    if (url.starts_with(each.name) && each.type == nullptr) {
      return fmt::format("this program is linked without the {} store: link once::{}", each.name, each.name);
    }
  }
  return fmt::format("the store must be {}", store_forms());
}

Result<OpenedStore> open_plain(const StoreType& type, const std::string& url, const StoreSettings& settings,
                               const StorePorts& ports) {
  OpenedStore opened;
  if (type.connect == nullptr) {
    auto store = type.open(url, settings, ports);
    if (!store) return std::unexpected(store.error());
    opened.plain = *std::move(store);
    return opened;
  }
  auto server = type.connect(url, settings.server, ports.log);
  if (!server) return std::unexpected(server.error());
  opened.sweeper = std::make_unique<Sweeper>(**server, settings.server, ports.log);
  opened.plain = *std::move(server);
  opened.lanes = settings.server.connections;
  return opened;
}

}  // namespace

std::span<const StoreType* const> store_types() {
  static const std::vector<const StoreType*> types = linked_types();
  return types;
}

const StoreType* find_store(std::string_view url) {
  const std::size_t colon = url.find(':');
  const std::string_view scheme = url.substr(0, colon);
  const auto types = store_types();
  const auto found = std::ranges::find_if(types, [&](const StoreType* type) { return type->has_scheme(scheme); });
  if (found == types.end()) return nullptr;
  const StoreType* const type = *found;
  switch (type->place) {
    case StorePlace::none: return colon + 1 == url.size() ? type : nullptr;
    case StorePlace::folder: return colon != std::string_view::npos ? type : nullptr;
    case StorePlace::server: return type;  // errors in the rest of the URL are reported when it is parsed
  }
  return nullptr;
}

bool is_shared_store(std::string_view url) {
  const StoreType* const type = find_store(url);
  return type != nullptr && type->shared == Shared::yes;
}

std::string store_forms() {
  std::string out;
  const auto types = store_types();
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::string_view before = i == 0 ? "" : (i + 1 == types.size() ? " or " : ", ");
    fmt::format_to(std::back_inserter(out), "{}{}", before, types[i]->form);
  }
  return out;
}

std::string url_prefix(const StoreType& type) {
  return fmt::format("{}:{}", type.name, type.place == StorePlace::server ? "//" : "");
}

Result<OpenedStore> open_store(const std::string& url, const StoreSettings& settings, const StorePorts& ports) {
  const StoreType* const type = find_store(url);
  if (type == nullptr) {
    return std::unexpected(
        Error{.source = ErrorSource::config, .retryable = Retryable::no, .detail = no_such_store(url)});
  }
  auto opened = open_plain(*type, url, settings, ports);
  if (!opened || settings.sealing_secrets.empty()) return opened;
  opened->random = std::make_unique<SystemRandom>();
  opened->sealed = std::make_unique<SealedStore>(*opened->plain, settings.sealing_secrets, *opened->random, ports.log);
  return opened;
}

}  // namespace once::store
