// A planted bug that the fuzzer must find, or its silence about the other targets would mean nothing. The way to it
// leads through the key parser: a quoted key with both escapes. This file is not instrumented, so what guides the
// fuzzer is only what it sees of the library. The bug is a read behind the input, which only AddressSanitizer sees.
#include "core/key.hpp"
#include "tests/fuzz/input.hpp"

FUZZ(bytes) {
  const auto key = once::core::parse_key(bytes, 255);
  if (!key || bytes.front() != '"') return;
  if (!key->view().contains('"') || !key->view().contains('\\')) return;
  const volatile char behind = bytes.data()[bytes.size()];
  static_cast<void>(behind);
}
