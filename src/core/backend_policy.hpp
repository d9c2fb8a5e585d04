// The backend's `Idempotency-Policy` response header: comma-separated members, in any case, that control how the
// response is recorded. Unknown or malformed members are ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.hpp"

namespace once::core {

struct BackendPolicy {
  // If a response has several of these members, the last one counts.
  enum class Record : std::uint8_t {
    by_status,  // not given: the route's record settings decide
    final,      // record as the outcome, whatever the status
    retry,      // do not record: a retry executes again, whatever the status
    no_store,   // release the claim, as if it was never made
  };
  Record record = Record::by_status;
  std::optional<Duration> ttl;  // `ttl=SECONDS`: how long to keep the outcome, instead of the route's ttl

  // Adds one field of a response, which may have several. If several give a ttl, the last one counts.
  void add(std::string_view value);

  bool operator==(const BackendPolicy&) const = default;
};

}  // namespace once::core
