// Enforces deadlines for a client library that only has a timeout per read: at the deadline of a call its connection is
// shut down, and the library gives up. One thread for all calls of a store, started with the first call.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/layers.hpp"

namespace once::store {

class Cutter {
 public:
  Cutter() = default;
  ~Cutter();
  Cutter(const Cutter&) = delete;
  Cutter& operator=(const Cutter&) = delete;

  // A call in progress, from construction to end(). The socket must outlive it.
  class Call {
   public:
    Call(Cutter& cutter, int socket, std::chrono::nanoseconds until);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    enum class Ended : std::uint8_t { in_time, cut };
    Ended end();

   private:
    friend class Cutter;
    Cutter& cutter_;
    const int socket_;
    // Guarded by the cutter's mutex.
    bool listed_ = true;
    bool cut_ = false;
    std::multimap<std::chrono::nanoseconds, Call*>::iterator place_;
  };

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<std::chrono::nanoseconds, Call*> calls_;  // by deadline
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace once::store
