// A connection that ends in the middle of an answer, at every byte of it: what was not read whole is never taken for
// the whole.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <thread>

#include <poll.h>

#include "tests/store/mysql_fixture.hpp"
#include "tests/unit/support/loopback.hpp"

namespace once::mysql_test {
namespace mysql_cut_test {

// One connection to the server, which ends when the client was given as many bytes as it may get.
class Relay {
 public:
  explicit Relay(std::uint16_t server) : thread_([this, server] { serve(server); }) {}

  std::uint16_t port() const { return listener_.port(); }
  void cut_after(std::int64_t bytes) { left_ = bytes; }
  std::int64_t given() const { return given_; }

 private:
  void serve(std::uint16_t port) {
    const Descriptor client = listener_.accept();
    const Descriptor server = connect_to_loopback(port);
    if (!server.open()) return;
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
  const LoopbackListener listener_;
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
