// The row of this store in the catalogue.
#pragma once

#include "store/catalog/store_type.hpp"

namespace once::journal {

extern const StoreType journal_type;

}  // namespace once::journal
