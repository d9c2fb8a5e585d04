#include "store/mysql/schema.hpp"

namespace once::mysql {

std::string schema_script() {
  return "";
}

Result<std::string> apply_schema(const std::string& /*url*/, const ServerSettings& /*settings*/) {
  return "";
}

}  // namespace once::mysql
