// This store's row in the catalogue.
#pragma once

#include "store/catalog/store_type.hpp"

namespace once::redis {

extern const StoreType redis_type;

}  // namespace once::redis
