// One run of a gateway, as the simulation sees it. Two kinds: one that begins with parsed requests and has a backend of
// its own (process.hpp), and one that begins with bytes (byte_process.hpp).
#pragma once

#include <functional>

#include "sim/history.hpp"
#include "sim/operators.hpp"
#include "sim/streams.hpp"

namespace once::sim {

class GatewayProcess {
 public:
  virtual ~GatewayProcess() = default;

  // Calls back with the answer, unless the process dies first or the answer is lost.
  virtual void ask(const Asked& asked, std::function<void(const Answer&)> answered) = 0;
  // The caller stops the stream that it asked for.
  virtual void stop(const Asked& /*asked*/) {}
  virtual Operators& operators() = 0;
  // Null: it has none.
  virtual Streams* streams() { return nullptr; }

  // Bytes that it counts as stored for a caller.
  virtual std::size_t counted_for(const TenantTag& /*caller*/) { return 0; }

  virtual void die() = 0;
  virtual void pause(Duration length) = 0;
  virtual void heal() = 0;

  // At the end of the run: begins to end in order, and has to have ended a while later, with nothing left.
  virtual void wind_down() {}
  virtual void has_wound_down() {}
};

}  // namespace once::sim
