#include "store/postgres/schema.hpp"

namespace once::postgres {

std::string schema_script() {
  return "";
}

Result<std::string> apply_schema(const std::string& /*url*/, const ServerSettings& /*settings*/) {
  return "";
}

}  // namespace once::postgres
