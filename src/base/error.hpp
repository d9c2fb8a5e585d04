// Functions that can fail return Result<T>. An Error names the source of the failure and whether a retry is safe. "In
// flight", "mismatch" and "lost the claim" are values, not errors.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "base/layers.hpp"

namespace once::base {

enum class ErrorSource : std::uint8_t { client, backend, store, config, system };

enum class Retryable : std::uint8_t { no, yes };

struct Error {
  ErrorSource source;
  Retryable retryable;
  std::string detail;  // for people; never holds a raw key, a secret or a body
};

template <class T>
using Result = std::expected<T, Error>;

}  // namespace once::base
