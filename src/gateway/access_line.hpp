// The line of one request in the access log.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "core/operation.hpp"
#include "gateway/reply.hpp"

namespace once {

struct AccessLine {
  std::string_view request_id;
  std::string_view method;
  std::string_view path;
  int status;
  Ending ending;
  Attempt attempt;
  std::chrono::nanoseconds spent;
  std::optional<OperationId> operation;  // of a request with a key
  std::string_view trace;                // its id, if there is one

  void write(const Log& log, std::string_view shadow) const;
};

}  // namespace once
