// Whether the client of a request is still there. It matters only while its request waits for another one: nothing was
// sent to the backend for it, so a client that leaves takes its request with it.
#pragma once

#include "base/layers.hpp"

namespace once::gateway {

class Presence {
 public:
  class Listener {
   public:
    // Called once, on the request's own loop. Must not resume the request from here.
    virtual void client_left() = 0;

   protected:
    ~Listener() = default;
  };

  // False: the client has left already, and the listener is not called.
  virtual bool listen(Listener& listener) = 0;
  virtual void stop_listening() = 0;

 protected:
  ~Presence() = default;
};

}  // namespace once::gateway
