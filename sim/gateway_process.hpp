// One run of a gateway as the simulation sees it. There are two kinds: one that begins with parsed requests and has its
// own backend (process.hpp), and one that begins with bytes (byte_process.hpp).
#pragma once

#include <functional>

#include "sim/guards.hpp"
#include "sim/history.hpp"
#include "sim/operators.hpp"
#include "sim/streams.hpp"

namespace once::sim {

class GatewayProcess {
 public:
  virtual ~GatewayProcess() = default;

  // Calls back with the answer, unless the process dies first or the answer is lost.
  virtual void ask(const Asked& asked, std::function<void(const Answer&)> answered) = 0;
  // The caller stops its stream.
  virtual void stop(const Asked& /*asked*/) {}
  virtual Operators& operators() = 0;
  // Null: the process has none of them.
  virtual Streams* streams() { return nullptr; }
  virtual Guards* guards() { return nullptr; }

  // The stored bytes that it counts for a caller.
  virtual std::size_t counted_for(const TenantTag& /*caller*/) { return 0; }

  virtual void die() = 0;
  virtual void pause(Duration length) = 0;
  virtual void heal() = 0;

  // Call at the end of the run: wind_down() starts an orderly end, and has_wound_down() checks a while later that it
  // ended and left nothing behind.
  virtual void wind_down() {}
  virtual void has_wound_down() {}
};

}  // namespace once::sim
