// Sockets with TLS, both ends real: whole transfers, ends that were announced and ends that were not, and what of an
// abandoned write can reach the peer.
#include <memory>
#include <string>

#include <gmock/gmock.h>

#include "base/log.hpp"
#include "http/socket.hpp"
#include "http/tls_context.hpp"
#include "tests/unit/http/certificates.hpp"
#include "tests/unit/http/loop_run.hpp"
#include "tests/unit/support/manual_clock.hpp"

namespace once::http::tls_socket_test {

using namespace std::chrono_literals;
using testing::HasSubstr;

class TlsSocket : public testing::Test {
 protected:
  TlsSocket() : log(clock, STDERR_FILENO, LogLevel::off, LogFormat::json) {
    make("server", "DNS:server.test,DNS:*.wild.test,IP:127.0.0.1");
    make("other", "DNS:other.test");
    make("client", "");
    server.certificates = {certificates.path("server.pem"), certificates.path("other.pem")};
    server.keys = {certificates.path("server.key"), certificates.path("other.key")};
    client.ca = certificates.path("ca.pem");
  }

  void make(const std::string& name, const std::string& alt_names) {
    certificates.make({.name = name, .alt_names = alt_names});
  }

  // near is the client, far the server.
  void connect(const Pair& pair, std::string_view name = "server.test") {
    Warnings warnings;
    const auto accepting = TlsServerContext::make(server, warnings);
    const auto connecting = TlsClientContext::make(client, warnings);
    ASSERT_TRUE(accepting.has_value());
    ASSERT_TRUE(connecting.has_value());
    peer = std::make_unique<TlsPeer>(*connecting, name, log);
    fds = pair;
    near = std::make_unique<Socket>(run.loop, pair.near);
    far = std::make_unique<Socket>(run.loop, pair.far);
    near->secure(peer->connect());
    far->secure((*accepting)->accept());
  }

  static Task<void> shakes(Socket& socket, Io& how) { how = co_await socket.handshake(long_enough); }
  void shake_hands() { run.play(shakes(*near, near_shook), shakes(*far, far_shook)); }

  // Shakes hands, then reads until there is no more.
  static Task<void> reads_all(Socket& socket, std::string& bytes, Io& how) {
    how = co_await socket.handshake(long_enough);
    std::array<char, 1500> room{};
    while (how == Io::ok) {
      const IoResult got = co_await socket.read_some(room, long_enough);
      how = got.status;
      bytes.append(room.data(), got.bytes);
    }
  }

  ManualClock clock;
  Log log;
  Certificates certificates;
  TlsServerSettings server;
  TlsClientSettings client;
  LoopRun run;
  Pair fds{};
  std::unique_ptr<TlsPeer> peer;
  std::unique_ptr<Socket> near;
  std::unique_ptr<Socket> far;
  Io near_shook = Io::cancelled;
  Io far_shook = Io::cancelled;
  std::string bytes;
  Io how = Io::ok;
};

TEST_F(TlsSocket, a_large_write_in_pieces_arrives_whole_and_in_order) {
  const Pair pair = local_pair();
  shrink_send_buffer(pair);
  connect(pair);
  const std::string head(100'000, 'h');
  const std::string body(700'000, 'b');
  const auto writes = [](Socket& socket, std::string_view first, std::string_view second) -> Task<void> {
    co_await socket.handshake(long_enough);
    const WriteAll::Pieces pieces = {first, "12\r\n", second, "end"};
    const IoResult sent = co_await socket.write_all(pieces, long_enough);
    EXPECT_EQ(sent.status, Io::ok);
    EXPECT_EQ(sent.bytes, first.size() + second.size() + 7);
    co_await socket.end_writing(long_enough);
  };
  run.play(writes(*near, head, body), reads_all(*far, bytes, how));
  EXPECT_EQ(how, Io::end);
  EXPECT_EQ(bytes, head + "12\r\n" + body + "end");
}

TEST_F(TlsSocket, both_directions_at_once_under_pressure) {
  const Pair pair = local_pair();
  shrink_send_buffer(pair);
  shrink_send_buffer({.near = pair.far, .far = pair.near});
  connect(pair);
  const std::string large(500'000, 'x');
  const auto writes = [](Socket& socket, std::string_view all) -> Task<void> {
    const IoResult sent = co_await socket.write_all(all, long_enough);
    EXPECT_EQ(sent.bytes, all.size());
  };
  const auto both = [](Socket& socket, std::string_view all, std::string& got, auto write) -> Task<void> {
    co_await socket.handshake(long_enough);
    spawn(write(socket, all));
    std::array<char, 3000> room{};
    while (got.size() < all.size()) {
      const IoResult read = co_await socket.read_some(room, long_enough);
      EXPECT_EQ(read.status, Io::ok);
      if (read.status != Io::ok) co_return;
      got.append(room.data(), read.bytes);
    }
  };
  std::string other;
  run.play(both(*near, large, bytes, writes), both(*far, large, other, writes));
  EXPECT_EQ(bytes, large);
  EXPECT_EQ(other, large);
}

TEST_F(TlsSocket, an_end_that_nobody_announced_is_a_failure) {
  connect(tcp_pair());
  const auto writes_and_vanishes = [](Socket& socket, int fd) -> Task<void> {
    co_await socket.handshake(long_enough);
    co_await socket.write_all("half a message", long_enough);
    ::shutdown(fd, SHUT_WR);
  };
  run.play(writes_and_vanishes(*near, fds.near), reads_all(*far, bytes, how));
  EXPECT_EQ(how, Io::failed);
  EXPECT_EQ(bytes, "half a message");
}

TEST_F(TlsSocket, a_peer_that_announced_its_end_still_gets_an_answer) {
  connect(tcp_pair());
  const auto ends_and_reads = [](Socket& socket, std::string& got) -> Task<void> {
    co_await socket.handshake(long_enough);
    socket.shut_down_writing();
    std::array<char, 100> room{};
    const IoResult read = co_await socket.read_some(room, long_enough);
    got.assign(room.data(), read.bytes);
  };
  const auto answers = [](Socket& socket) -> Task<void> {
    co_await socket.handshake(long_enough);
    std::array<char, 100> room{};
    const IoResult read = co_await socket.read_some(room, long_enough);
    EXPECT_EQ(read.status, Io::end);
    const IoResult sent = co_await socket.write_all("answer", long_enough);
    EXPECT_EQ(sent.status, Io::ok);
  };
  run.play(ends_and_reads(*near, bytes), answers(*far));
  EXPECT_EQ(bytes, "answer");
}

// Bytes that were reported as not sent must never arrive, not even when the peer reads on and the socket is used again.
TEST_F(TlsSocket, what_was_counted_arrives_and_nothing_of_an_abandoned_record_does) {
  connect(tcp_pair());
  const auto gives_up = [](std::unique_ptr<Socket>& socket, std::size_t& counted, bool& gave_up) -> Task<void> {
    co_await socket->handshake(long_enough);
    std::array<char, 10> room{};
    co_await socket->read_some(room, long_enough);  // session tickets too: closing with unread bytes would reset
    const std::string record(16'384, 'x');
    IoResult sent{Io::ok, 0};
    while (sent.status == Io::ok) {
      sent = co_await socket->write_all(record, 30ms);
      counted += sent.bytes;
    }
    EXPECT_EQ(sent.status, Io::timed_out);
    EXPECT_EQ(sent.bytes, 0U);
    gave_up = true;
    // While the other side reads, and there is room again.
    for (int i = 0; i < 20; ++i) {
      const IoResult more = co_await socket->write_all(record, 30ms);
      EXPECT_EQ(more.status, Io::failed);
      EXPECT_EQ(more.bytes, 0U);
      co_await sleep_for(socket->loop(), 5ms);
    }
    co_await socket->end_writing(30ms);
    socket.reset();
  };
  const auto reads_later = [](Socket& socket, const bool& gave_up, std::string& got, Io& ended) -> Task<void> {
    co_await socket.handshake(long_enough);
    co_await socket.write_all("go", long_enough);
    while (!gave_up) co_await sleep_for(socket.loop(), 1ms);
    std::string room(65'536, ' ');
    while (true) {
      const IoResult read = co_await socket.read_some(room, long_enough);
      ended = read.status;
      if (read.status != Io::ok) co_return;
      got.append(room.data(), read.bytes);
    }
  };
  std::size_t counted = 0;
  bool gave_up = false;
  run.play(gives_up(near, counted, gave_up), reads_later(*far, gave_up, bytes, how));
  EXPECT_GT(counted, 0U);
  EXPECT_EQ(bytes.size(), counted);
  EXPECT_EQ(how, Io::failed);
}

TEST_F(TlsSocket, a_reset_on_close_announces_nothing) {
  connect(local_pair());
  const auto resets = [](std::unique_ptr<Socket>& socket) -> Task<void> {
    co_await socket->handshake(long_enough);
    co_await socket->write_all("half", long_enough);
    socket->reset_on_close();
    socket.reset();
  };
  run.play(resets(near), reads_all(*far, bytes, how));
  EXPECT_EQ(how, Io::failed);
}

TEST_F(TlsSocket, a_cancelled_read_can_be_taken_up_again) {
  connect(local_pair());
  const auto reads_twice = [](Socket& socket, std::string& got) -> Task<void> {
    co_await socket.handshake(long_enough);
    std::array<char, 10> room{};
    socket.cancel();
    const IoResult first = co_await socket.read_some(room, long_enough);
    EXPECT_EQ(first.status, Io::cancelled);
    const IoResult written = co_await socket.write_all("x", long_enough);
    EXPECT_EQ(written.status, Io::cancelled);
    socket.restore();
    co_await socket.write_all("go", long_enough);
    const IoResult second = co_await socket.read_some(room, long_enough);
    got.assign(room.data(), second.bytes);
  };
  const auto answers = [](Socket& socket) -> Task<void> {
    co_await socket.handshake(long_enough);
    std::array<char, 10> room{};
    co_await socket.read_some(room, long_enough);
    co_await socket.write_all("gone", long_enough);
  };
  run.play(reads_twice(*near, bytes), answers(*far));
  EXPECT_EQ(bytes, "gone");
}

// Session tickets come with an event of their own: they are no reason to take a connection for disturbed.
TEST_F(TlsSocket, a_resting_connection_is_quiet_until_its_peer_says_something) {
  connect(tcp_pair());
  const auto rests = [](Socket& socket, Socket& other) -> Task<void> {
    co_await socket.handshake(long_enough);
    std::array<char, 10> room{};
    const IoResult read = co_await socket.read_some(room, long_enough);
    EXPECT_EQ(read.bytes, 5U);
    EXPECT_FALSE(socket.disturbed());
    EXPECT_TRUE(socket.quiet());
    other.shut_down_writing();
    while (!socket.disturbed()) co_await sleep_for(socket.loop(), 1ms);
    EXPECT_FALSE(socket.quiet());
  };
  const auto greets = [](Socket& socket) -> Task<void> {
    co_await socket.handshake(long_enough);
    co_await socket.write_all("hello", long_enough);
  };
  run.play(rests(*near, *far), greets(*far));
}

TEST_F(TlsSocket, the_watcher_is_told_of_bytes_and_of_ends) {
  struct Noted final : Socket::Watcher {
    void peer_moved(Socket::Peer what) override { told = what; }
    std::optional<Socket::Peer> told;
  };
  connect(tcp_pair());
  const auto watches = [](Socket& watched, Socket& other) -> Task<void> {
    co_await watched.handshake(long_enough);
    Noted noted;
    EXPECT_EQ(watched.watch(noted), std::nullopt);
    co_await other.write_all("x", long_enough);
    while (!noted.told) co_await sleep_for(watched.loop(), 1ms);
    EXPECT_EQ(noted.told, Socket::Peer::bytes);
    EXPECT_EQ(watched.watch(noted), Socket::Peer::bytes);
    std::array<char, 10> room{};
    const IoResult read = co_await watched.read_some(room, long_enough);
    EXPECT_EQ(read.bytes, 1U);
    noted.told.reset();
    EXPECT_EQ(watched.watch(noted), std::nullopt);
    other.shut_down_writing();
    while (!noted.told) co_await sleep_for(watched.loop(), 1ms);
    EXPECT_EQ(noted.told, Socket::Peer::end);
  };
  run.play(watches(*far, *near), shakes(*near, near_shook));
}

TEST_F(TlsSocket, a_handshake_has_a_limit) {
  connect(local_pair());
  const auto waits = [](Socket& socket, Io& ended) -> Task<void> { ended = co_await socket.handshake(30ms); };
  run.play(waits(*far, far_shook));
  EXPECT_EQ(far_shook, Io::timed_out);
}

TEST_F(TlsSocket, plain_http_is_recognised) {
  connect(local_pair());
  ASSERT_EQ(::send(fds.near, "GET / HTTP/1.1\r\n", 16, 0), 16);
  run.play(shakes(*far, far_shook));
  EXPECT_EQ(far_shook, Io::failed);
  EXPECT_TRUE(far->tls()->heard_http());
}

TEST_F(TlsSocket, a_verified_client_has_a_name) {
  server.client_ca = certificates.path("ca.pem");
  client.certificate = certificates.path("client.pem");
  client.key = certificates.path("client.key");
  connect(local_pair());
  shake_hands();
  EXPECT_EQ(far_shook, Io::ok);
  EXPECT_EQ(far->tls()->peer_subject(), R"(CN=client,O=Test\, Inc.)");
}

TEST_F(TlsSocket, without_a_certificate_a_client_has_no_name_or_is_refused) {
  server.client_ca = certificates.path("ca.pem");
  server.client_auth = ClientAuth::optional;
  connect(local_pair());
  shake_hands();
  EXPECT_EQ(far_shook, Io::ok);
  EXPECT_EQ(far->tls()->peer_subject(), "");
}

TEST_F(TlsSocket, a_required_certificate_is_required) {
  server.client_ca = certificates.path("ca.pem");
  connect(local_pair());
  shake_hands();
  EXPECT_EQ(far_shook, Io::failed);
  EXPECT_THAT(far->tls()->problem(), HasSubstr("peer did not return a certificate"));
}

struct Named {
  std::string_view asked;
  std::string_view shown;  // "": refused
};

class TlsServerName : public TlsSocket, public testing::WithParamInterface<Named> {};
INSTANTIATE_TEST_SUITE_P(Names, TlsServerName,
                         testing::Values(Named{"server.test", "server"}, Named{"other.test", "other"},
                                         Named{"Other.Test.", "other"}, Named{"x.wild.test", "server"},
                                         Named{"127.0.0.1", "server"}, Named{"wild.test", ""},
                                         Named{"x.y.wild.test", ""}, Named{"127.0.0.2", ""}, Named{"client", ""}));

TEST_P(TlsServerName, the_certificate_for_it_is_shown_and_verified) {
  connect(local_pair(), GetParam().asked);
  shake_hands();
  EXPECT_EQ(near_shook, GetParam().shown.empty() ? Io::failed : Io::ok);
  if (GetParam().shown.empty()) {
    EXPECT_THAT(near->tls()->problem(), HasSubstr("mismatch"));
  } else {
    EXPECT_THAT(near->tls()->peer_subject(), HasSubstr("CN=" + std::string(GetParam().shown)));
  }
}

// Whatever order the certificates are in.
class TlsWildcard : public TlsSocket, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Order, TlsWildcard, testing::Bool());

TEST_P(TlsWildcard, a_certificate_for_the_exact_name_comes_before_a_wildcard) {
  make("wild", "DNS:*.shop.test");
  make("exact", "DNS:pay.shop.test");
  const bool wildcard_first = GetParam();
  for (const std::string name : {wildcard_first ? "wild" : "exact", wildcard_first ? "exact" : "wild"}) {
    server.certificates.push_back(certificates.path(name + ".pem"));
    server.keys.push_back(certificates.path(name + ".key"));
  }
  connect(local_pair(), "pay.shop.test");
  shake_hands();
  EXPECT_EQ(near_shook, Io::ok);
  EXPECT_THAT(near->tls()->peer_subject(), HasSubstr("CN=exact"));
}

TEST_F(TlsSocket, a_server_that_cannot_be_verified_is_refused_unless_nobody_asks) {
  client.ca = certificates.path("client.pem");
  connect(local_pair());
  shake_hands();
  EXPECT_EQ(near_shook, Io::failed);
  EXPECT_THAT(near->tls()->problem(), HasSubstr("certificate verify failed: unable to get local issuer certificate"));
}

TEST_F(TlsSocket, without_verification_anybody_will_do) {
  client.ca = certificates.path("client.pem");
  client.verify = false;
  connect(local_pair(), "nobody.test");
  shake_hands();
  EXPECT_EQ(near_shook, Io::ok);
}

TEST_F(TlsSocket, an_expired_server_is_refused) {
  certificates.make({.name = "server", .alt_names = "DNS:server.test", .valid_from = -7200, .valid_until = -3600});
  connect(local_pair());
  shake_hands();
  EXPECT_EQ(near_shook, Io::failed);
  EXPECT_THAT(near->tls()->problem(), HasSubstr("certificate has expired"));
}

}  // namespace once::http::tls_socket_test
