// Responses that are recorded as they stream, at the level of the store: owners that claim a key, append chunks at
// their own pace, sometimes too slowly, and end it in some way; and readers besides them. They use their own keys, each
// in one process.
#pragma once

#include <cstdint>
#include <list>

#include "base/random.hpp"
#include "base/task.hpp"
#include "sim/history.hpp"
#include "sim/world.hpp"
#include "store/lane.hpp"

namespace once::sim {

// The key of a stream.
OperationId stream_id(unsigned stream);

class Streams {
 public:
  struct Ports {
    World& world;
    History& history;
    Lanes& lanes;
    Executor& home;
    Random& random;
  };
  explicit Streams(const Ports& ports) : ports_(ports) {}

  // Claims the stream and, if granted, appends to it and ends it.
  void own(unsigned stream);
  // Reads it a few times.
  void follow(unsigned stream);
  // The process was killed: its coroutines have no further effect.
  void cut_off() { cut_off_ = true; }

 private:
  struct Work {
    unsigned stream = 0;
    Nonce nonce{};
    ClaimTerms terms{};
    Duration slow{};  // the limit of slow pauses, which may be longer than a lease
    Op op{};          // the last one requested
  };

  Work& begin(unsigned stream);
  Task<void> run_owner(Work& work);
  Task<OpStatus> append(Work& work, std::uint32_t chunk);
  // `chunks` is the number of chunks that the owner knows of.
  Task<void> end(Work& work, unsigned execution, std::uint32_t chunks);
  Task<void> run_reader(Work& work);
  Task<void> ask(Work& work, Op op);

  Ports ports_;
  std::list<Work> works_;  // kept until the process ends, because requests are distinguished by their address
  bool cut_off_ = false;
};

}  // namespace once::sim
