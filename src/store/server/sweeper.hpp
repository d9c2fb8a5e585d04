// Removes expired records of a server store periodically, in small batches, on its own thread.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/log.hpp"
#include "store/server/server_store.hpp"
#include "store/server/settings.hpp"

namespace once::store {

class Sweeper {
 public:
  Sweeper(ServerStore& store, const ServerSettings& settings, const Log& log);
  ~Sweeper();
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;

 private:
  void loop();
  void sweep_all();
  enum class Paused : std::uint8_t { whole, stopped };
  Paused pause(Duration how_long);

  ServerStore& store_;
  const ServerSettings settings_;
  const Log& log_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;  // declared last, because it uses all of the above
};

}  // namespace once::store
