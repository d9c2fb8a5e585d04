// Hears from Redis which operations ended that somebody waits for, on a connection and a thread of its own. It comes
// back when the connection is lost; what was said meanwhile is not said again, so whoever waits also looks from time to
// time.
#pragma once

#include <functional>
#include <thread>

#include "base/bytes.hpp"
#include "base/descriptor.hpp"
#include "store/redis/directory.hpp"

namespace once::redis {

class Listener {
 public:
  using Told = std::function<void(const OperationId&)>;

  Listener(Context& context, Directory& directory, Told told);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  enum class Woken : std::uint8_t { by_data, by_time, by_the_end };

  void loop();
  // Any server will do: what is published on one is heard on all.
  Result<std::unique_ptr<Link>> subscribe();
  // Until the connection breaks, which is the error, or the end.
  Result<void> listen(Link& link);
  void hear(const redisReply& message);
  Woken wait(int descriptor, Duration most) const;

  Context& context_;
  Directory& directory_;
  const Told told_;
  std::size_t next_node_ = 0;
  Descriptor stop_;     // an eventfd: readable when it is time to end
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace once::redis
