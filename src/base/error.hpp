// What can fail returns Result<T>. An Error says who is to blame and whether trying again is safe.
// "In flight", "mismatch" and "lost the claim" are not errors: they are values of their own.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

namespace once {

enum class ErrorSource : std::uint8_t { client, backend, store, config, system };

enum class Retryable : std::uint8_t { no, yes };

struct Error {
  ErrorSource source;
  Retryable retryable;
  std::string detail;  // for people; never holds a raw key, a secret or a body
};

template <class T>
using Result = std::expected<T, Error>;

}  // namespace once
