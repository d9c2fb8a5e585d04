// Recorded responses: whatever bytes are read as one are exactly what writing it gives, and any parts survive.
#include "core/outcome.hpp"

#include "tests/fuzz/input.hpp"

FUZZ(bytes) {
  if (const auto response = once::core::decode(bytes)) {
    ONCE_ASSERT(once::core::encode(*response) == bytes);
    ONCE_ASSERT(!once::core::decode(bytes.substr(0, bytes.size() - 1)));
  }

  once::fuzz::Input input(bytes);
  once::core::StoredResponse made;
  made.status = input.number<std::uint16_t>() % 1000;
  made.reason = input.text(input.number<std::uint8_t>());
  made.original_request_id = input.text(input.number<std::uint8_t>());
  made.headers = input.text(input.number<std::uint16_t>());
  made.body = input.rest();
  std::string written = once::core::encode(made);
  ONCE_ASSERT(once::core::decode(written) == made);
  written += 'x';
  ONCE_ASSERT(!once::core::decode(written));
}
