// The key of a request, as its header has it.
#pragma once

#include <cstddef>
#include <expected>
#include <optional>
#include <string_view>

#include "core/headers.hpp"
#include "core/key.hpp"
#include "core/policy.hpp"
#include "http/head.hpp"

namespace once {

struct FoundKey {
  std::size_t count = 0;
  std::string_view value;
};

inline FoundKey find_key(const http::RequestHead& head, std::string_view name) {
  FoundKey found;
  for (const http::Field& field : head.fields) {
    if (!same_name(field.name, name)) continue;
    ++found.count;
    found.value = field.value;
  }
  return found;
}

}  // namespace once
