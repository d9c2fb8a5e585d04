#include "client/uuid.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.hpp"

namespace once::client {

namespace {

using Bytes = std::array<std::uint8_t, 16>;

void set_version(Bytes& bytes, std::uint8_t version) {
  bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0FU) | (unsigned{version} << 4U));
  bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3FU) | 0x80U);
}

void set_time(Bytes& bytes, Time now) {
  const auto milliseconds = static_cast<std::uint64_t>(now.time_since_epoch().count());
  for (std::size_t i = 0; i < 6; ++i) bytes[i] = static_cast<std::uint8_t>(milliseconds >> (8 * (5 - i)));
}

}  // namespace

std::string make_key(KeyForm form, Time now, Random& random) {
  Bytes bytes{};
  random.fill(bytes);
  switch (form) {
    case KeyForm::uuid_v4: set_version(bytes, 4); break;
    case KeyForm::uuid_v7:
      set_time(bytes, now);
      set_version(bytes, 7);
      break;
  }
  std::string text = to_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  for (const std::size_t dash : {8U, 13U, 18U, 23U}) text.insert(dash, 1, '-');
  return text;
}

}  // namespace once::client
