// A store on a real server that tests/servers/with_server.py started. Its wall clock is moved on, not waited for.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "tests/store/contract/fixture.hpp"
#include "tests/unit/support/layers.hpp"

namespace once::contract {

inline std::string from_environment(const char* name) {
  const char* const value = std::getenv(name);
  ONCE_ASSERT(value != nullptr);  // run by ctest, or by tests/servers/with_server.py
  return value;
}

inline std::string server_url() {
  return from_environment("ONCE_TEST_STORE");
}

// Adds to the skew that the server's clock has.
inline void advance_server_clock(Duration by) {
  const int file = ::open(from_environment("ONCE_TEST_CLOCK").c_str(), O_RDWR | O_CLOEXEC);
  ONCE_ASSERT(file >= 0);
  std::int64_t skew = 0;
  ONCE_ASSERT(::pread(file, &skew, sizeof skew, 0) == sizeof skew);
  skew += by.count();
  ONCE_ASSERT(::pwrite(file, &skew, sizeof skew, 0) == sizeof skew);
  ::close(file);
}

class ServerUnderTest final : public StoreUnderTest {
 public:
  // Each call of `open` opens a store with connections of its own.
  explicit ServerUnderTest(std::function<std::unique_ptr<Store>()> open) : open_(std::move(open)), store_(open_()) {}
  Store& store() override { return *store_; }
  Store& other() override {
    if (other_ == nullptr) other_ = open_();
    return *other_;
  }
  void advance(Duration by) override { advance_server_clock(by); }
  // The clock runs by itself, too: what a test does between two steps must take far less than this.
  Duration unit() const override { return std::chrono::seconds(10); }

 private:
  std::function<std::unique_ptr<Store>()> open_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Store> other_;
};

}  // namespace once::contract
