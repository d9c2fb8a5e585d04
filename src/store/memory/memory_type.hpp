// The row of this store in the catalogue.
#pragma once

#include "store/catalog/store_type.hpp"

namespace once {

extern const StoreType memory_type;

}  // namespace once
