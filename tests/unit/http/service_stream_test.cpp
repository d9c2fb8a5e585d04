#include <sys/socket.h>

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "base/descriptor.hpp"
#include "http/endpoint.hpp"
#include "http/service.hpp"
#include "tests/unit/support/eventually.hpp"

namespace once::http::service_stream_test {

using namespace std::chrono_literals;

struct Counts {
  std::atomic<int> open = 0;
  std::atomic<int> pieces = 0;
};

class Pieces final : public ServiceStream {
 public:
  Pieces(Counts& counts, std::string piece, int most) : counts_(counts), piece_(std::move(piece)), left_(most) {
    ++counts_.open;
  }
  ~Pieces() override { --counts_.open; }

  std::string next() override {
    if (left_-- == 0) return "";
    ++counts_.pieces;
    return piece_;
  }
  Duration pause() const override { return 10ms; }

 private:
  Counts& counts_;
  std::string piece_;
  int left_;
};

class Streams final : public ServiceHandler {
 public:
  Task<ServiceResponse> handle(const ServiceRequest& /*request*/) override {
    ServiceResponse response;
    response.stream = std::make_shared<Pieces>(counts, piece, most);
    co_return response;
  }

  Counts counts;
  std::string piece = "piece\n";
  int most = -1;  // for ever
};

class ServiceStreams : public testing::Test {
 protected:
  void start() { ASSERT_TRUE(thread_.start("127.0.0.1:0").has_value()); }

  Descriptor ask(std::string_view method = "GET") {
    const auto endpoint = resolve_listener(thread_.address());
    Descriptor client(::socket(endpoint->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&endpoint->address), endpoint->size), 0);
    const std::string request = std::string(method) + " / HTTP/1.1\r\nHost: x\r\n\r\n";
    EXPECT_EQ(::send(client.get(), request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
    return client;
  }

  static std::string read_to_end(const Descriptor& client) {
    std::string all;
    char some[4096];
    for (ssize_t got = 0; (got = ::recv(client.get(), some, sizeof some, 0)) > 0;) {
      all.append(some, static_cast<std::size_t>(got));
    }
    return all;
  }

  Streams handler_;
  ServiceThread thread_{handler_, nullptr, ServiceLimits{.stream_stall = 50ms}};
};

TEST_F(ServiceStreams, ends_when_there_is_nothing_more) {
  handler_.most = 3;
  start();
  const std::string all = read_to_end(ask());
  EXPECT_TRUE(all.ends_with("\r\n\r\npiece\npiece\npiece\n")) << all;
  EXPECT_EQ(all.find("Content-Length"), std::string::npos);
  EXPECT_NE(all.find("Connection: close\r\n"), std::string::npos);
}

TEST_F(ServiceStreams, has_a_head_only_for_head) {
  start();
  EXPECT_TRUE(read_to_end(ask("HEAD")).ends_with("\r\n\r\n"));
  EXPECT_TRUE(eventually([&] { return handler_.counts.open == 0; }));
  EXPECT_EQ(handler_.counts.pieces, 0);
}

TEST_F(ServiceStreams, ends_when_the_client_leaves) {
  start();
  {
    const Descriptor client = ask();
    EXPECT_TRUE(eventually([&] { return handler_.counts.pieces > 2; }));
    EXPECT_EQ(handler_.counts.open, 1);
  }
  EXPECT_TRUE(eventually([&] { return handler_.counts.open == 0; }));
}

TEST_F(ServiceStreams, drops_a_client_that_does_not_read) {
  handler_.piece = std::string(1U << 20U, 'x');
  start();
  const Descriptor client = ask();
  EXPECT_TRUE(eventually([&] { return handler_.counts.pieces > 0; }));
  EXPECT_TRUE(eventually([&] { return handler_.counts.open == 0; }));
  EXPECT_LT(handler_.counts.pieces, 64) << "what nobody reads is not made";
}

TEST_F(ServiceStreams, does_not_delay_the_end_of_the_service) {
  start();
  const Descriptor client = ask();
  EXPECT_TRUE(eventually([&] { return handler_.counts.pieces > 0; }));
  thread_.stop();  // returns
  EXPECT_EQ(handler_.counts.open, 0);
}

}  // namespace once::http::service_stream_test
