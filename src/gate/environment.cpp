#include "gate/environment.hpp"

#include <cstdlib>

namespace once::gate {

Environ process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* const value = std::getenv(std::string(name).c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

}  // namespace once::gate
