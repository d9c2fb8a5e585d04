// TLS on the simulated network: both ends in virtual time, split and delayed anywhere, with every call failing in turn.
#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/log.hpp"
#include "base/task.hpp"
#include "http/socket.hpp"
#include "http/tls_context.hpp"
#include "sim/loop_driver.hpp"
#include "tests/unit/http/certificates.hpp"
#include "tests/unit/support/manual_clock.hpp"

namespace once::sim::tls_net_test {

using namespace std::chrono_literals;
using http::Io;
using http::IoResult;
using http::Socket;

constexpr Duration limit = 1h;

// Made once: keys take longer than everything else here.
class Contexts {
 public:
  Contexts() {
    certificates_.make({.name = "server", .alt_names = "DNS:server.test"});
    http::TlsServerSettings server;
    server.certificates = {certificates_.path("server.pem")};
    server.keys = {certificates_.path("server.key")};
    http::TlsClientSettings client;
    client.ca = certificates_.path("ca.pem");
    http::Warnings warnings;
    accepting = *http::TlsServerContext::make(server, warnings);
    connecting = *http::TlsClientContext::make(client, warnings);
  }

  http::TlsServerContext::Ptr accepting;
  http::TlsClientContext::Ptr connecting;

 private:
  http::Certificates certificates_;
};

// One connection, and what each end has read and how its stream ended.
class Connection final : private http::FaultListener {
 public:
  Connection(const Contexts& contexts, const Weather& weather)
      : log_(clock_, -1, LogLevel::off, LogFormat::json),
        world_(1, false),
        network_(world_, weather),
        net_(network_),
        loop_(net_),
        driver_(world_, loop_, *net_.pollers().back()),
        client_(contexts.connecting, "server.test", log_) {
    loop_.listen(*this);
    const http::Endpoint server_at = Network::address("192.0.2.1", 443);
    const http::Endpoint relay_at = Network::address("192.0.2.2", 443);
    const int listener = net_.listen(server_at);
    network_.serve(relay_at, [this](std::unique_ptr<Peer> peer) { of_client_ = std::move(peer); });
    of_server_ = network_.connect(server_at, relay_at);
    near_ = std::make_unique<Socket>(loop_, net_.connect(relay_at));
    world_.run_until(world_.now() + 1s);
    relay(*of_client_, *of_server_);
    relay(*of_server_, *of_client_);
    sockaddr_storage from{};
    far_ = std::make_unique<Socket>(loop_, net_.accept(listener, from));
    near_->secure(client_.connect());
    far_->secure(contexts.accepting->accept());
    net_.faults = [this](NetCall /*call*/) {
      ++calls;
      return fails_at != 0 && calls >= fails_at && calls < fails_at + fails_for ? fails_with : NetFault::none;
    };
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    near_.reset();
    far_.reset();
  }

  // The client asks and ends its side; the server answers what it got, and ends its own.
  void talk(const std::string& request) {
    spawn(ask(*near_, request, answer, answer_end, running_));
    spawn(echo(*far_, asked, asked_end, running_));
    world_.run_until(world_.now() + 10 * limit);
    EXPECT_EQ(running_, 0) << "an end of the connection hangs";
    EXPECT_EQ(faults_, "");
  }

  std::string asked;
  std::string answer;
  Io asked_end = Io::ok;
  Io answer_end = Io::ok;

  std::uint64_t fails_at = 0;  // the number of the call; 0: none
  unsigned fails_for = 1;
  NetFault fails_with = NetFault::none;
  std::uint64_t calls = 0;

 private:
  // The network connects processes with peers only, so two of them pass on what the ends say.
  static void relay(Peer& from, Peer& to) {
    from.on_bytes = [&to](std::string_view bytes) { to.send(bytes); };
    from.on_end = [&to] { to.end(); };
    from.on_reset = [&to] { to.reset(); };
  }

  static Task<void> read_all(Socket& socket, std::string& bytes, Io& end) {
    std::array<char, 1500> room{};
    while (end == Io::ok) {
      const IoResult got = co_await socket.read_some(room, limit);
      end = got.status;
      bytes.append(room.data(), got.bytes);
    }
  }

  static Task<void> ask(Socket& socket, const std::string& request, std::string& answer, Io& end, int& running) {
    ++running;
    end = co_await socket.handshake(limit);
    if (end == Io::ok) {
      const IoResult sent = co_await socket.write_all(request, limit);
      end = sent.status;
      co_await socket.end_writing(limit);
    }
    co_await read_all(socket, answer, end);
    --running;
  }

  static Task<void> echo(Socket& socket, std::string& asked, Io& end, int& running) {
    ++running;
    end = co_await socket.handshake(limit);
    co_await read_all(socket, asked, end);
    if (end == Io::end) {
      co_await socket.write_all(asked, limit);
      co_await socket.end_writing(limit);
    }
    --running;
  }

  void connection_fault(const http::ConnectionFault& fault) override { faults_ += fault.invariant; }

  ManualClock clock_;
  Log log_;
  World world_;
  Network network_;
  SimNet net_;
  http::Loop loop_;
  LoopDriver driver_;
  http::TlsPeer client_;
  std::unique_ptr<Peer> of_client_;
  std::unique_ptr<Peer> of_server_;
  std::unique_ptr<Socket> near_;
  std::unique_ptr<Socket> far_;
  std::string faults_;
  int running_ = 0;
};

const std::string request(40'000, 'r');

TEST(TlsOnNet, what_is_split_delayed_and_held_up_anywhere_arrives_whole) {
  const Contexts contexts;
  for (const std::size_t capacity : {std::size_t{200}, std::size_t{5000}, std::size_t{1} << 20U}) {
    for (const unsigned splits : {0U, 60U}) {
      SCOPED_TRACE(fmt::format("{} bytes on their way, {} % split", capacity, splits));
      Connection connection(contexts, {.delay = 5ms, .splits = splits, .capacity = capacity});
      connection.talk(request);
      EXPECT_EQ(connection.asked, request);
      EXPECT_EQ(connection.answer, request);
      EXPECT_EQ(connection.asked_end, Io::end);
      EXPECT_EQ(connection.answer_end, Io::end);
    }
  }
}

// A call that fails for a moment changes nothing. After a reset nobody takes a part for the whole, and nobody hangs.
TEST(TlsOnNet, every_call_may_fail) {
  const Contexts contexts;
  const Weather weather{.delay = 1ms, .capacity = 20'000};
  Connection whole(contexts, weather);
  whole.talk(request);
  ASSERT_GT(whole.calls, 10U);
  for (const NetFault fault : {NetFault::again, NetFault::interrupted, NetFault::brief, NetFault::reset}) {
    for (std::uint64_t call = 1; call <= whole.calls; ++call) {
      SCOPED_TRACE(fmt::format("call {} of {} fails: {}", call, whole.calls, name_of(fault)));
      Connection connection(contexts, weather);
      connection.fails_at = call;
      connection.fails_with = fault;
      connection.talk(request);
      if (fault != NetFault::reset || connection.asked_end == Io::end) EXPECT_EQ(connection.asked, request);
      if (fault != NetFault::reset || connection.answer_end == Io::end) EXPECT_EQ(connection.answer, request);
      EXPECT_TRUE(request.starts_with(connection.asked));
      EXPECT_TRUE(request.starts_with(connection.answer));
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace once::sim::tls_net_test
