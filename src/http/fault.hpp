// What a loop reports to its owner: broken invariants of a connection, and running out of descriptors.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/layers.hpp"

namespace once::http {

// A broken invariant is a bug in Once, but it ends only its connection: if it ended the process like ONCE_ASSERT, a
// client that can trigger it could stop the service.
struct ConnectionFault {
  const char* invariant;
  const char* file;
  int line;
};

// The purpose of a file descriptor.
enum class DescriptorUse : std::uint8_t {
  client,    // a connection waits to be accepted
  upstream,  // a connection to a backend, for a request or a health check
  service,   // a connection to the admin interface or the claims API waits to be accepted
};
inline constexpr std::size_t descriptor_use_count = 3;
std::string_view name_of(DescriptorUse use);

struct NoDescriptor {
  DescriptorUse use;
  std::string_view error;  // the system's error message
  std::chrono::nanoseconds now;
};

// Called on the loop's own thread.
class FaultListener {
 public:
  virtual void connection_fault(const ConnectionFault& fault) = 0;
  virtual void out_of_descriptors(const NoDescriptor& /*what*/) {}

 protected:
  ~FaultListener() = default;
};

}  // namespace once::http
