// This store's row in the catalogue.
#pragma once

#include "store/catalog/store_type.hpp"

namespace once::postgres {

extern const StoreType postgres_type;

}  // namespace once::postgres
