#include "http/service.hpp"

#include <sys/socket.h>

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

#include "base/descriptor.hpp"
#include "http/endpoint.hpp"
#include "tests/unit/support/eventually.hpp"

namespace once::http::service_test {

using namespace std::chrono_literals;

constexpr std::size_t large_size = std::size_t{64} << 20U;

// /wait and /large are at work until they may end, /secret is refused; everything else is answered at once.
class Pages final : public ServiceHandler {
 public:
  Admission admit(const ServiceRequest& request) override {
    EXPECT_TRUE(request.body.empty());
    if (request.head.path == "/secret") return {.refusal = ServiceResponse{.status = 401, .body = "no"}};
    return {.max_body = request.head.path == "/small" ? 3U : SIZE_MAX};
  }
  Task<ServiceResponse> handle(const ServiceRequest& request) override {
    if (request.head.path == "/wait" || request.head.path == "/large") {
      ++working;
      while (!may_end) co_await sleep_for(*loop, 5ms);
    }
    if (request.head.path == "/large") co_return ServiceResponse{.body = std::string(large_size, 'x')};
    co_return ServiceResponse{.body = std::string(request.head.path)};
  }
  void connected() override { ++opened; }
  void disconnected() override { ++closed; }
  void displaced() override { ++made_room; }

  Loop* loop = nullptr;
  std::atomic<bool> may_end = false;
  std::atomic<int> working = 0;
  std::atomic<int> opened = 0;
  std::atomic<int> closed = 0;
  std::atomic<int> made_room = 0;
};

class ServiceConnections : public testing::Test {
 protected:
  static constexpr std::size_t most = 4;

  void SetUp() override {
    handler_.loop = &thread_.loop();
    ASSERT_TRUE(thread_.start("127.0.0.1:0").has_value());
  }
  void TearDown() override { handler_.may_end = true; }

  // Returns when the service has it.
  Descriptor connect() {
    const int before = handler_.opened;
    const auto endpoint = resolve_listener(thread_.address());
    Descriptor client(::socket(endpoint->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&endpoint->address), endpoint->size), 0);
    EXPECT_TRUE(eventually([&] { return handler_.opened > before; }));
    return client;
  }

  static void send(const Descriptor& client, std::string_view bytes) {
    EXPECT_EQ(::send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  static void ask(const Descriptor& client, std::string_view path) {
    send(client, "GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  // Up to the end of a body that is the path; or the end.
  static std::string read_until(const Descriptor& client, std::string_view last) {
    std::string all;
    char some[4096];
    while (!all.ends_with(last)) {
      const ssize_t got = ::recv(client.get(), some, sizeof some, 0);
      if (got <= 0) break;
      all.append(some, static_cast<std::size_t>(got));
    }
    return all;
  }
  static bool served(const Descriptor& client, std::string_view path) {
    ask(client, path);
    return read_until(client, path).starts_with("HTTP/1.1 200 ");
  }
  static bool was_closed(const Descriptor& client) {
    char some[1];
    return ::recv(client.get(), some, sizeof some, 0) <= 0;
  }

  Pages handler_;
  ServiceThread thread_{handler_, nullptr, ServiceLimits{.max_connections = most}};
};

TEST_F(ServiceConnections, idle_ones_make_room_for_a_new_one) {
  std::vector<Descriptor> idle;
  for (std::size_t count = 0; count < most; ++count) idle.push_back(connect());
  EXPECT_TRUE(served(connect(), "/healthz"));
  EXPECT_TRUE(was_closed(idle[0]));
  EXPECT_TRUE(served(idle[1], "/still-here"));
  EXPECT_EQ(handler_.made_room, 1);
}

TEST_F(ServiceConnections, the_one_without_a_request_for_longest_goes_first) {
  std::vector<Descriptor> idle;
  for (std::size_t count = 0; count < most; ++count) idle.push_back(connect());
  EXPECT_TRUE(served(idle[0], "/used"));
  EXPECT_TRUE(served(connect(), "/healthz"));
  EXPECT_TRUE(was_closed(idle[1]));
  EXPECT_TRUE(served(idle[0], "/used-again"));
}

TEST_F(ServiceConnections, a_part_of_a_request_keeps_nobody_out) {
  std::vector<Descriptor> slow;
  for (std::size_t count = 0; count < most; ++count) {
    slow.push_back(connect());
    send(slow.back(), count % 2 == 0 ? "GET / HT" : "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nab");
  }
  for (std::size_t count = 0; count < most; ++count) EXPECT_TRUE(served(connect(), "/healthz"));
}

TEST_F(ServiceConnections, refused_ones_that_linger_keep_nobody_out) {
  std::vector<Descriptor> lingering;
  for (std::size_t count = 0; count < 3 * most; ++count) {
    lingering.push_back(connect());
    send(lingering.back(), "no request\r\n\r\n");
    EXPECT_TRUE(read_until(lingering.back(), "\r\n\r\n").starts_with("HTTP/1.1 400 "));
  }
  for (std::size_t count = 0; count < most; ++count) EXPECT_TRUE(served(connect(), "/healthz"));
}

TEST_F(ServiceConnections, a_request_at_work_is_not_displaced) {
  std::vector<Descriptor> busy;
  for (std::size_t count = 0; count < most; ++count) {
    busy.push_back(connect());
    ask(busy.back(), "/wait");
  }
  ASSERT_TRUE(eventually([&] { return handler_.working == static_cast<int>(most); }));
  for (std::size_t count = 0; count < 3; ++count) {
    const Descriptor refused = connect();
    EXPECT_TRUE(read_until(refused, "connections.").starts_with("HTTP/1.1 503 "));
  }
  EXPECT_EQ(handler_.made_room, 0);
  handler_.may_end = true;
  for (const Descriptor& client : busy) EXPECT_TRUE(read_until(client, "/wait").starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(served(connect(), "/healthz"));
}

TEST_F(ServiceConnections, a_refused_head_is_answered_before_its_body_comes) {
  for (const std::string_view framing : {"Content-Length: 1000000", "Transfer-Encoding: chunked"}) {
    for (const std::string_view expect : {"", "Expect: 100-continue\r\n"}) {
      const Descriptor client = connect();
      send(client, "POST /secret HTTP/1.1\r\nHost: x\r\n" + std::string(expect) + std::string(framing) + "\r\n\r\n");
      const std::string all = read_until(client, "never");
      EXPECT_TRUE(all.starts_with("HTTP/1.1 401 ")) << all;
      EXPECT_TRUE(all.contains("Connection: close\r\n")) << all;
      EXPECT_TRUE(all.ends_with("\r\n\r\nno")) << all;
    }
  }
}

TEST_F(ServiceConnections, a_refused_head_request_gets_no_body) {
  const Descriptor client = connect();
  send(client, "HEAD /secret HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n");
  const std::string all = read_until(client, "never");
  EXPECT_TRUE(all.starts_with("HTTP/1.1 401 ")) << all;
  EXPECT_TRUE(all.contains("Content-Length: 2\r\n")) << all;
  EXPECT_TRUE(all.ends_with("\r\n\r\n")) << all;
}

TEST_F(ServiceConnections, a_refused_request_without_a_body_keeps_its_connection) {
  const Descriptor client = connect();
  for (int count = 0; count < 3; ++count) {
    ask(client, "/secret");
    EXPECT_TRUE(read_until(client, "\r\n\r\nno").starts_with("HTTP/1.1 401 "));
  }
  EXPECT_TRUE(served(client, "/healthz"));
}

TEST_F(ServiceConnections, a_handler_can_lower_the_limit_on_a_body) {
  const Descriptor client = connect();
  send(client, "POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_TRUE(read_until(client, "/small").starts_with("HTTP/1.1 200 "));
  send(client, "POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd");
  EXPECT_TRUE(read_until(client, "never").starts_with("HTTP/1.1 413 "));
}

// Reads so slowly that all of a large answer would take minutes, and never so slowly that it is silence.
std::size_t read_slowly(const Descriptor& client) {
  std::string some(std::size_t{16} << 10U, '\0');
  std::size_t all = 0;
  while (true) {
    const ssize_t got = ::recv(client.get(), some.data(), some.size(), 0);
    if (got <= 0) return all;
    all += static_cast<std::size_t>(got);
    ::poll(nullptr, 0, 50);
  }
}

TEST_F(ServiceConnections, an_answer_that_is_read_slowly_does_not_hold_up_the_end) {
  const Descriptor client = connect();
  const Descriptor idle = connect();
  ask(client, "/large");
  ASSERT_TRUE(eventually([this] { return handler_.working == 1; }));
  std::size_t read = 0;
  std::thread reader([&] { read = read_slowly(client); });
  thread_.begin_stop();
  EXPECT_TRUE(was_closed(idle)) << "it was told to stop";
  EXPECT_FALSE(thread_.ended());
  handler_.may_end = true;
  thread_.stop();
  EXPECT_TRUE(thread_.ended());
  reader.join();
  EXPECT_LT(read, large_size) << "it was waited for";
}

TEST_F(ServiceConnections, the_service_ends_whatever_its_connections_do) {
  std::vector<Descriptor> clients;
  for (std::size_t count = 0; count < 3 * most; ++count) {
    clients.push_back(connect());
    if (count % 3 == 1) send(clients.back(), "no request\r\n\r\n");
  }
  thread_.stop();  // returns
  EXPECT_EQ(handler_.opened, handler_.closed);
}

}  // namespace once::http::service_test
