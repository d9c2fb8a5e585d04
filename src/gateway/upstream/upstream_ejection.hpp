// Outlier ejection: which servers of a backend get no new requests for a while because of their responses: 5xx, too
// late, or none. Requests already sent there stay there; nothing is resent because of this. Shared by all workers
// through atomics.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "gateway/settings.hpp"

namespace once::gateway {

// How a server handled a request.
enum class Served : std::uint8_t { well, badly };

// Judges by the response's status. 501 and 505 are about the request, not the server.
inline Served served_with(int status) {
  return status >= 500 && status != 501 && status != 505 ? Served::badly : Served::well;
}

// How many servers of one backend are ejected, and the limit.
class EjectedServers {
 public:
  explicit EjectedServers(std::size_t most) : most_(most) {}

  bool try_enter();  // unless the limit is reached
  void leave() { count_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  std::atomic<std::size_t> count_ = 0;
  const std::size_t most_;
};

class ServerEjection {
 public:
  using Instant = std::chrono::nanoseconds;  // monotonic

  ServerEjection(const EjectSettings& settings, EjectedServers& others) : settings_(settings), others_(others) {}

  // The state change, for the log.
  enum class Change : std::uint8_t { none, ejected, readmitted };

  // Whether the server gets no new requests.
  bool out(Instant now) const { return until_.load(std::memory_order_relaxed) > now.count(); }
  // The displayed state: ejected until a request succeeded again, not just until one may try.
  bool ejected() const { return until_.load(std::memory_order_relaxed) != 0; }
  std::uint64_t times() const { return times_.load(std::memory_order_relaxed); }

  // A request that is about to go to the server. If the server is ejected, this request is its trial: the others avoid
  // the server meanwhile, and only the trial's result counts. Default: the server is not ejected.
  class Trial {
   public:
    explicit operator bool() const { return until_ != 0; }

   private:
    friend class ServerEjection;
    std::int64_t until_ = 0;
  };
  Trial pick(Instant now);

  // Reports how the request was handled.
  Change served(Served how, const Trial& trial, Instant now);

 private:
  Change eject(Instant now);
  Change end_trial(Served how, const Trial& trial, Instant now);
  std::int64_t longer() const;

  const EjectSettings settings_;
  EjectedServers& others_;
  std::atomic<std::uint64_t> badly_ = 0;      // in a row
  std::atomic<std::int64_t> until_ = 0;       // 0: not ejected
  std::atomic<std::int64_t> length_ = 0;      // of the last ejection, in nanoseconds
  std::atomic<std::int64_t> readmitted_ = 0;  // time of the last readmission
  std::atomic<std::uint64_t> times_ = 0;
};

}  // namespace once::gateway
