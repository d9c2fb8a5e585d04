#include "base/crc32c.hpp"

#include <array>
#include <cstddef>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace once::base {

namespace {

constexpr std::uint32_t polynomial = 0x82f63b78;  // bits reversed

consteval std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? polynomial : 0);
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> table = make_table();

#if defined(__x86_64__)
#define ONCE_CRC_INSTRUCTION __attribute__((target("sse4.2")))
ONCE_CRC_INSTRUCTION std::uint32_t add_word(std::uint32_t crc, std::uint64_t word) {
  return static_cast<std::uint32_t>(_mm_crc32_u64(crc, word));
}
ONCE_CRC_INSTRUCTION std::uint32_t add_byte(std::uint32_t crc, std::uint8_t byte) {
  return _mm_crc32_u8(crc, byte);
}
bool has_instruction() {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}
#elif defined(__ARM_FEATURE_CRC32)
#define ONCE_CRC_INSTRUCTION
std::uint32_t add_word(std::uint32_t crc, std::uint64_t word) {
  return __crc32cd(crc, word);
}
std::uint32_t add_byte(std::uint32_t crc, std::uint8_t byte) {
  return __crc32cb(crc, byte);
}
bool has_instruction() {
  return true;
}
#endif

#if defined(ONCE_CRC_INSTRUCTION)
ONCE_CRC_INSTRUCTION std::uint32_t by_instruction(std::string_view bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  std::uint64_t word = 0;
  for (; bytes.size() >= sizeof word; bytes.remove_prefix(sizeof word)) {
    std::memcpy(&word, bytes.data(), sizeof word);
    crc = add_word(crc, word);
  }
  for (const char byte : bytes) crc = add_byte(crc, static_cast<std::uint8_t>(byte));
  return ~crc;
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(std::string_view bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  for (const char byte : bytes) crc = (crc >> 8U) ^ table[(crc ^ static_cast<std::uint8_t>(byte)) & 0xffU];
  return ~crc;
}

std::uint32_t crc32c(std::string_view bytes, std::uint32_t before) {
#if defined(ONCE_CRC_INSTRUCTION)
  if (has_instruction()) return by_instruction(bytes, before);
#endif
  return crc32c_by_table(bytes, before);
}

}  // namespace once::base
