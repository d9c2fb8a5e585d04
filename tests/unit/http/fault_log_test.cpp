// A service beside the gateway tells the same listener of its faults as the gateway's own loops do.
#include "http/fault_log.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "http/endpoint.hpp"
#include "http/service.hpp"
#include "tests/unit/support/log_file.hpp"

namespace once::http::fault_log_test {

// Breaks an invariant of ours whenever it is asked.
struct Faulty final : ServiceHandler {
  Task<ServiceResponse> handle(const ServiceRequest& /*request*/) override {
    thread->loop().report({.invariant = "one == two", .file = "here.cpp", .line = 7});
    co_return ServiceResponse{.status = 204};
  }

  ServiceThread* thread = nullptr;
};

void ask_and_wait(const ServiceThread& thread) {
  const auto endpoint = resolve_listener(thread.address());
  const Descriptor client(::socket(endpoint->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&endpoint->address), endpoint->size), 0);
  constexpr std::string_view request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  ASSERT_EQ(::send(client.get(), request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  char first = 0;
  ASSERT_EQ(::recv(client.get(), &first, 1, 0), 1);
}

TEST(FaultLogTest, counts_and_logs_the_faults_of_a_service) {
  const SystemClock clock;
  const support::LogFile log(clock);
  FaultLog faults(log.log);
  Faulty handler;
  ServiceThread thread(handler, &faults);
  handler.thread = &thread;
  ASSERT_TRUE(thread.start("127.0.0.1:0").has_value());
  ask_and_wait(thread);
  ask_and_wait(thread);
  EXPECT_EQ(faults.count(), 2U);
  EXPECT_EQ(log.count("connection ended, invariant broken"), 2U) << log.text();
  EXPECT_EQ(log.count("one == two"), 2U) << log.text();
}

}  // namespace once::http::fault_log_test
