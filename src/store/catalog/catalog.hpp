// The catalogue of stores: finds the store for a URL and opens it. To add a store, add a row in catalog.cpp; command
// line, configuration, library and admin interface take everything else from its StoreType.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/random.hpp"
#include "store/catalog/store_type.hpp"
#include "store/sealed_store.hpp"
#include "store/server/sweeper.hpp"

namespace once::store {

// In the order of help texts.
std::span<const StoreType* const> store_types();

// Finds the store by the URL's scheme. Null: unknown.
const StoreType* find_store(std::string_view url);
// Whether several gateways can share it. False also for an unknown URL.
bool is_shared_store(std::string_view url);

// The forms of all URLs, for help texts: "journal:FOLDER, memory:, … or mysql://HOST/DATABASE".
std::string store_forms();
// The prefix of this type's URLs: "journal:", "redis://".
std::string url_prefix(const StoreType& type);

// An open store and the objects it depends on.
struct OpenedStore {
  std::unique_ptr<Store> plain;
  std::unique_ptr<Sweeper> sweeper;     // for a store that does not delete expired records itself
  std::unique_ptr<Random> random;       // for the sealed store only
  std::unique_ptr<SealedStore> sealed;  // wraps the store if outcomes are encrypted
  std::size_t lanes = 1;                // how many batches it may execute at once

  Store& store() const { return sealed ? static_cast<Store&>(*sealed) : *plain; }
};

Result<OpenedStore> open_store(const std::string& url, const StoreSettings& settings, const StorePorts& ports);

}  // namespace once::store
