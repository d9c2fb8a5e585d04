// CRC-32C (Castagnoli), with the processor's instruction if it has one.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/layers.hpp"

namespace once::base {

// crc32c(b, crc32c(a)) is crc32c(a + b).
std::uint32_t crc32c(std::string_view bytes, std::uint32_t before = 0);

// The same without the instruction: for processors that lack it, and to test against.
std::uint32_t crc32c_by_table(std::string_view bytes, std::uint32_t before = 0);

}  // namespace once::base
