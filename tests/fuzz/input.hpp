// What a fuzz target is given: libFuzzer calls LLVMFuzzerTestOneInput, which a target defines with FUZZ(bytes) { … }.
// A property that does not hold is a failed ONCE_ASSERT; the fuzzer then keeps the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/assert.hpp"

namespace once::fuzz {

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Takes plain values from the front of the input; zeros when there is no more.
class Input {
 public:
  explicit Input(std::string_view bytes) : bytes_(bytes) {}

  template <class Number>
  Number number() {
    Number value = 0;
    const std::string_view taken = text(sizeof value);
    if (!taken.empty()) std::memcpy(&value, taken.data(), taken.size());
    return value;
  }
  std::string_view text(std::size_t size) {
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  template <class Blob>
  Blob blob() {
    Blob value;
    const std::string_view taken = text(Blob::size);
    if (!taken.empty()) std::memcpy(value.bytes.data(), taken.data(), taken.size());
    return value;
  }
  std::string_view rest() { return text(bytes_.size()); }

 private:
  std::string_view bytes_;
};

}  // namespace once::fuzz

#define FUZZ(bytes)                                                                   \
  static void fuzz_one(std::string_view bytes);                                       \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);  \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) { \
    fuzz_one(once::fuzz::as_text(data, size));                                        \
    return 0;                                                                         \
  }                                                                                   \
  static void fuzz_one(std::string_view bytes)
