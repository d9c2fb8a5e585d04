// A broken invariant inside of the library: the program lives on and is told. One test, since nothing mends it.
#include "bindings/c/broken.hpp"

#include <atomic>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <once/once.h>
#include <poll.h>

#include "base/assert.hpp"
#include "tests/unit/support/temporary_folder.hpp"

namespace once::abi {
namespace broken_test {

once_bytes bytes(const std::string& text) {
  return {.data = text.data(), .size = text.size()};
}

TEST(BrokenInvariants, end_the_gate_and_not_the_process) {
  const TemporaryFolder folder;
  const std::string store = "memory:";
  const std::string data = folder.path();
  const std::string names[] = {"store", "data_dir"};
  const once_field settings[] = {{bytes(names[0]), bytes(store)}, {bytes(names[1]), bytes(data)}};
  once_options options{};
  options.size = sizeof options;
  options.settings = settings;
  options.setting_count = 2;
  options.log = ONCE_LOG_OFF;
  once_gate* gate = nullptr;
  ASSERT_EQ(once_open(&options, &gate), ONCE_OK) << once_last_error();
  const std::uint64_t tag = once_private_tag(gate);
  const int descriptor = once_poll_fd(gate);
  EXPECT_FALSE(abi::is_broken());

  // Somebody waits for what will never come; then a thread of ours finds that something cannot be.
  std::atomic<once_status> told = ONCE_OK;
  std::thread waits([&] {
    once_event* event = nullptr;
    told = once_wait(gate, tag, UINT32_MAX, &event);
  });
  std::atomic<bool> went_on = false;
  std::thread([&went_on] {
    assertion_failed("1 == 2", "file.cpp", 1);
    went_on = true;
  }).detach();
  waits.join();
  EXPECT_EQ(told, ONCE_BROKEN);
  EXPECT_FALSE(went_on);
  pollfd ready{.fd = descriptor, .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&ready, 1, 20'000), 1);

  // From here on every call says so, and what a call itself finds ends at the border.
  EXPECT_EQ(once_stop(gate, 1), ONCE_BROKEN);
  EXPECT_NE(std::strstr(once_last_error(), "1 == 2"), nullptr);
  EXPECT_EQ(once_free(gate, 1000), ONCE_BROKEN);
  {
    const abi::Inside inside;
    EXPECT_ANY_THROW(ONCE_ASSERT(false));
  }
}

}  // namespace broken_test
}  // namespace once::abi
