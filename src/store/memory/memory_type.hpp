// This store's row in the catalogue.
#pragma once

#include "store/catalog/store_type.hpp"

namespace once::memory {

extern const StoreType memory_type;

}  // namespace once::memory
