// A broken invariant of one connection. It is our mistake, but it ends that connection only: ONCE_ASSERT would let
// whoever can provoke it end the process.
#pragma once

namespace once::http {

struct ConnectionFault {
  const char* invariant;
  const char* file;
  int line;
};

// Told on the loop's own thread.
class FaultListener {
 public:
  virtual void connection_fault(const ConnectionFault& fault) = 0;

 protected:
  ~FaultListener() = default;
};

}  // namespace once::http
