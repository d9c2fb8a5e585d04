// Ends calls of a client library that has no deadline of its own, only a timeout for each read: when the time of a call
// is over, its connection is cut, and the library gives up. One thread for all calls of a store, started with the
// first.
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

  // A call: from now until it goes. The socket stays open for longer than that.
  class Call {
   public:
    Call(Cutter& cutter, int socket, std::chrono::nanoseconds until);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    // Ends it. True: the connection was cut.
    bool end();

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
  std::multimap<std::chrono::nanoseconds, Call*> calls_;  // by the end of their time
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace once::store
