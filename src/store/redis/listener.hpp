// Receives notifications from Redis about ended operations that have waiters, on its own connection and thread. It
// reconnects when the connection is lost. Notifications in between are lost, so waiters also poll.
#pragma once

#include <functional>
#include <thread>

#include "base/bytes.hpp"
#include "base/descriptor.hpp"
#include "store/redis/directory.hpp"

namespace once::redis {

class Listener {
 public:
  using Notify = std::function<void(const OperationId&)>;

  Listener(Context& context, Directory& directory, Notify notify);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  enum class Woken : std::uint8_t { by_data, by_time, by_the_end };

  void loop();
  // Any server will do: messages published on one node reach all nodes.
  Result<std::unique_ptr<Link>> subscribe();
  // Runs until the connection breaks, which is the error, or the listener ends.
  Result<void> listen(Link& link);
  void hear(const redisReply& message);
  Woken wait(int descriptor, Duration most) const;

  Context& context_;
  Directory& directory_;
  const Notify notify_;
  std::size_t next_node_ = 0;
  Descriptor stop_;     // an eventfd: readable when the listener must end
  std::thread thread_;  // declared last, because it uses all of the above
};

}  // namespace once::redis
