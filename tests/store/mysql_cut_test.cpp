// A connection that ends in the middle of an answer, at every byte of it: what was not read whole is never taken for
// the whole.
#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <thread>

#include <poll.h>

#include "base/descriptor.hpp"
#include "tests/store/mysql_fixture.hpp"

namespace once::mysql_test {
namespace mysql_cut_test {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// One connection to the server, which ends when the client was given as many bytes as it may get.
class Relay {
 public:
  explicit Relay(std::uint16_t server) : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this, server] { serve(server); });
  }

  std::uint16_t port() const { return port_; }
  void cut_after(std::int64_t bytes) { left_ = bytes; }
  std::int64_t given() const { return given_; }

 private:
  void serve(std::uint16_t port) {
    const Descriptor client(::accept(listener_.get(), nullptr, nullptr));
    const Descriptor server(::socket(AF_INET, SOCK_STREAM, 0));
    const sockaddr_in address = loopback(port);
    if (::connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return;
    while (left_ > 0) {
      std::array<pollfd, 2> both = {pollfd{client.get(), POLLIN, 0}, pollfd{server.get(), POLLIN, 0}};
      if (::poll(both.data(), both.size(), -1) < 0) return;
      std::array<char, 4096> buffer{};
      if (both[0].revents != 0) {
        const ssize_t asked = ::recv(client.get(), buffer.data(), buffer.size(), 0);
        if (asked <= 0 || ::send(server.get(), buffer.data(), static_cast<std::size_t>(asked), MSG_NOSIGNAL) != asked)
          return;
      }
      if (both[1].revents == 0) continue;
      const auto most = static_cast<std::size_t>(std::min<std::int64_t>(left_, buffer.size()));
      const ssize_t got = ::recv(server.get(), buffer.data(), most, 0);
      if (got <= 0) return;
      given_ += got;  // before the client can see them, and the test ask how many there were
      left_ -= got;
      if (::send(client.get(), buffer.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) != got) return;
    }
  }

  static constexpr std::int64_t endless = INT64_MAX / 2;
  Descriptor listener_;
  std::uint16_t port_ = 0;
  std::atomic<std::int64_t> left_{endless};
  std::atomic<std::int64_t> given_{0};
  std::jthread thread_;
};

class MysqlCutTest : public MysqlTest {
 protected:
  struct Told {
    bool ran = false;
    std::size_t rows = 0;
    std::int64_t bytes = 0;  // of the answer, that came
  };

  static Told ask(std::int64_t cut_after) {
    auto target = *mysql::parse_target(contract::server_url());
    Relay relay(target.hosts.front().port);
    const StoreHost host{.name = "127.0.0.1", .port = relay.port()};
    const auto connection = mysql::Connection::open(target, host, ServerSettings());
    EXPECT_TRUE(connection.has_value()) << connection.error().detail;
    if (!connection) return {};
    Told told;
    const std::int64_t before = relay.given();
    if (cut_after > 0) relay.cut_after(cut_after);
    const auto count = [&](std::size_t, const mysql::RowView&) { ++told.rows; };
    told.ran = (*connection)->run("SELECT 1; SELECT 2; SET @a = 3; SELECT 4", count, 4).has_value();
    told.bytes = relay.given() - before;
    return told;
  }
};

TEST_F(MysqlCutTest, an_answer_that_ends_at_any_byte_is_lost) {
  const Told whole = ask(0);
  ASSERT_TRUE(whole.ran);
  ASSERT_EQ(whole.rows, 3U);
  ASSERT_GT(whole.bytes, 100);
  for (std::int64_t bytes = 1; bytes < whole.bytes; ++bytes) {
    const Told told = ask(bytes);
    ASSERT_FALSE(told.ran) << "after " << bytes << " of " << whole.bytes << " bytes, with " << told.rows << " rows";
  }
}

}  // namespace mysql_cut_test
}  // namespace once::mysql_test
