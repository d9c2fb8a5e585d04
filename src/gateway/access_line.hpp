// One request's line in the access log.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "core/operation.hpp"
#include "gateway/connection/reply.hpp"
#include "gateway/exchange/backend.hpp"

namespace once::gateway {

struct AccessLine {
  std::string_view request_id;
  std::string_view client;  // its address
  std::string_view method;
  std::string_view path;   // without the query
  std::string_view route;  // the pattern of its route; empty: no route
  int status;
  Ending ending;
  std::uint64_t bytes;  // sent to the client
  Attempt attempt;
  std::chrono::nanoseconds spent;
  UpstreamUse upstream;
  std::optional<OperationId> operation;  // of a request with a key
  std::string_view trace;                // the trace id, if any

  // The line; valid until the thread's next line.
  std::string_view text(LogFormat format, Time now, std::string_view shadow) const;
};

}  // namespace once::gateway
