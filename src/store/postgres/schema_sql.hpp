// The SQL of the schema, in parts. Each part is safe to repeat.
#pragma once

#include <string>
#include <string_view>

#include "base/layers.hpp"

namespace once::postgres {

std::string_view tables_sql();
std::string_view owner_functions_sql();  // once_finish, once_fail, once_renew, once_release
std::string_view claim_functions_sql();  // once_claim
std::string sweep_function_sql();        // once_sweep
std::string_view rights_sql();

}  // namespace once::postgres
