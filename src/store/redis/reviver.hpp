// Reconnects to nodes that are down, on its own thread, so that no batch has to wait for them; and checks whether
// another node has taken over.
#pragma once

#include <thread>

#include "store/redis/directory.hpp"

namespace once::redis {

class Reviver {
 public:
  Reviver(Context& context, Directory& directory);
  ~Reviver();
  Reviver(const Reviver&) = delete;
  Reviver& operator=(const Reviver&) = delete;

 private:
  void loop();

  Context& context_;
  Directory& directory_;
  std::thread thread_;  // declared last, because it uses all of the above
};

}  // namespace once::redis
