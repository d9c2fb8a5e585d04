// This store's row in the catalogue.
#pragma once

#include "store/catalog/store_type.hpp"

namespace once::mysql {

extern const StoreType mysql_type;

}  // namespace once::mysql
