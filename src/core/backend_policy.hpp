// The backend's `Idempotency-Policy` response header: comma-separated members, in any case, that control how the
// response is recorded. Unknown or malformed members are ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.hpp"

namespace once::core {

struct BackendPolicy {
  // A later one wins over the ones before it.
  enum class Record : std::uint8_t {
    by_status,  // nothing was said: the route's record settings decide
    final,      // this is the outcome, whatever its status
    retry,      // this is not final: a retry executes again, whatever the status
    no_store,   // as if never asked: the claim is released
  };
  Record record = Record::by_status;
  std::optional<Duration> ttl;  // `ttl=SECONDS`: how long the outcome is kept, instead of the route's ttl

  // One line of the header; a response may have several. Of two that give a ttl, the last counts.
  void add(std::string_view value);

  bool operator==(const BackendPolicy&) const = default;
};

}  // namespace once::core
