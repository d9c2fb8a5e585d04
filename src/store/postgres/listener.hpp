// Receives notifications about ended operations, on its own connection and thread. Notifications are lost while the
// connection is down; waiters also poll.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "base/bytes.hpp"
#include "base/descriptor.hpp"
#include "base/log.hpp"
#include "store/postgres/connection.hpp"
#include "store/server/server_store.hpp"
#include "store/server/settings.hpp"

namespace once::postgres {

class Listener {
 public:
  using Notify = std::function<void(const OperationId&)>;

  Listener(std::string url, const ServerSettings& settings, ServerCounts& counts, const Log& log, Notify notify);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  void loop();
  enum class Listened : std::uint8_t { yes, not_connected };
  // Runs until the connection breaks, or the listener ends.
  Listened listen();
  void hear(const std::string& payload) const;
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }

  const std::string url_;
  const ServerSettings settings_;
  ServerCounts& counts_;
  const Log& log_;
  const Notify notify_;
  Descriptor wake_;  // readable when the listener must end
  std::atomic<bool> stopping_{false};
  std::thread thread_;  // declared last, because it uses all of the above
};

}  // namespace once::postgres
