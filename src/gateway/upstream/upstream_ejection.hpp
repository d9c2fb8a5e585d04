// Which servers of a backend get no new requests for a while because of how they answered: 5xx, too late, or not at
// all. What went to them already stays theirs: nothing is ever sent again because of this. Shared by all workers;
// everything that is written is an atomic.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "gateway/settings.hpp"

namespace once::gateway {

// How a server dealt with a request.
enum class Served : std::uint8_t { well, badly };

// By the status of its response. 501 and 505 are about the request.
inline Served served_with(int status) {
  return status >= 500 && status != 501 && status != 505 ? Served::badly : Served::well;
}

// How many servers of one backend are ejected, and may be.
class EjectedServers {
 public:
  explicit EjectedServers(std::size_t most) : most_(most) {}

  // False: there are as many as there may be.
  bool enter();
  void leave() { count_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  std::atomic<std::size_t> count_ = 0;
  const std::size_t most_;
};

class ServerEjection {
 public:
  using Instant = std::chrono::nanoseconds;  // monotonic

  ServerEjection(const EjectSettings& settings, EjectedServers& others) : settings_(settings), others_(others) {}

  // What came of it, for the log.
  enum class Change : std::uint8_t { none, ejected, readmitted };

  // It gets nothing new.
  bool out(Instant now) const { return until_.load(std::memory_order_relaxed) > now.count(); }
  // As it is shown: until a request found it well again, not until one may try.
  bool ejected() const { return until_.load(std::memory_order_relaxed) != 0; }
  std::uint64_t times() const { return times_.load(std::memory_order_relaxed); }

  // A request is about to go there. If the server is ejected this is the one that tries it: the others avoid it
  // meanwhile, and only how it is served counts. Default: it is not ejected.
  class Trial {
   public:
    explicit operator bool() const { return until_ != 0; }

   private:
    friend class ServerEjection;
    std::int64_t until_ = 0;
  };
  Trial pick(Instant now);

  // How the request was served.
  Change served(Served how, const Trial& trial, Instant now);

 private:
  Change eject(Instant now);
  Change end_trial(Served how, const Trial& trial, Instant now);
  std::int64_t longer() const;

  const EjectSettings settings_;
  EjectedServers& others_;
  std::atomic<std::uint64_t> badly_ = 0;      // in a row
  std::atomic<std::int64_t> until_ = 0;       // 0: not ejected
  std::atomic<std::int64_t> length_ = 0;      // of the last time, in nanoseconds
  std::atomic<std::int64_t> readmitted_ = 0;  // when
  std::atomic<std::uint64_t> times_ = 0;
};

}  // namespace once::gateway
