#include "base/crc32c.hpp"

#include <string>

#include <gtest/gtest.h>

namespace once::base::crc32c_test {

struct Vector {
  std::string bytes;
  std::uint32_t sum;
};

std::string counting(int first, int step) {
  std::string bytes;
  for (int i = 0; i < 32; ++i) bytes.push_back(static_cast<char>(first + i * step));
  return bytes;
}

// "123456789" is everybody's; the others are from RFC 3720, B.4.
TEST(Crc32c, is_the_known_one) {
  for (const Vector& each : {Vector{"", 0}, Vector{"123456789", 0xe3069283}, Vector{std::string(32, '\0'), 0x8a9136aa},
                             Vector{std::string(32, '\xff'), 0x62a8ab43}, Vector{counting(0, 1), 0x46dd794e},
                             Vector{counting(31, -1), 0x113fdb5c}}) {
    EXPECT_EQ(crc32c(each.bytes), each.sum);
    EXPECT_EQ(crc32c_by_table(each.bytes), each.sum);
  }
}

std::string noise(std::size_t size) {
  std::string bytes;
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < size; ++i) {
    state = state * 1664525 + 1013904223;
    bytes.push_back(static_cast<char>(state >> 24U));
  }
  return bytes;
}

TEST(Crc32c, is_the_same_with_and_without_the_instruction_at_every_length_and_alignment) {
  const std::string bytes = noise(300);
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (std::size_t size = 0; size < 130; ++size) {
      const std::string_view part = std::string_view(bytes).substr(begin, size);
      ASSERT_EQ(crc32c(part, 77), crc32c_by_table(part, 77)) << begin << ' ' << size;
    }
  }
}

TEST(Crc32c, goes_on_where_it_was) {
  const std::string bytes = noise(100);
  for (std::size_t at = 0; at <= bytes.size(); ++at) {
    const std::string_view all = bytes;
    ASSERT_EQ(crc32c(all.substr(at), crc32c(all.substr(0, at))), crc32c(all));
    ASSERT_EQ(crc32c_by_table(all.substr(at), crc32c(all.substr(0, at))), crc32c(all));
  }
}

}  // namespace once::base::crc32c_test
