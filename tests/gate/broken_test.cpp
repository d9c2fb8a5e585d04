// A broken invariant inside of the library: the program lives on and is told. One test a process: nothing mends it.
#include "bindings/c/broken.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include <gtest/gtest.h>
#include <once/once.h>
#include <poll.h>

#include "base/assert.hpp"
#include "bindings/c/event_queue.hpp"
#include "gate/core.hpp"
#include "tests/unit/support/temporary_folder.hpp"

namespace once::abi::broken_test {

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

// In a process of its own, where nothing is broken yet. The sink is called on the gate's thread.
int status_after_a_throw() {
  ::alarm(20);
  const TemporaryFolder folder;
  const gate::Options options{.config_text = "routes: [{path: /a, cors: {origins: ['https://a.example']}}]",
                              .settings = {{"store", "memory:"}, {"data_dir", folder.path()}}};
  handle_broken_invariants(std::make_shared<EventQueue>());
  const auto sink = [](std::string_view) { throw std::runtime_error("no memory for a line"); };
  const auto core = gate::Core::open(options, {.kind = gate::LogTarget::Kind::sink, .sink = sink});
  if (!core) return 1;
  // The first request brings a warning, which goes to the sink.
  gate::Request request{.method = "POST", .target = "/a", .fields = {{"Host", "api.example"}}};
  gate::Completion<gate::BeginResult> nobody_asks;
  if ((*core)->begin(std::move(request), 1, std::move(nobody_asks)) != gate::Core::Begun::yes) return 1;
  while (!is_broken()) std::this_thread::yield();
  return fail_broken() == ONCE_BROKEN && std::strstr(once_last_error(), "no memory for a line") ? 0 : 1;
}

TEST(BrokenInvariantsDeathTest, exception_on_a_thread_of_ours_is_one) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::_Exit(status_after_a_throw()), testing::ExitedWithCode(0), "");
}

}  // namespace once::abi::broken_test
